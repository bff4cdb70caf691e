// Package store is the contract for storing resources. Package table implements it, and package
// storetest checks implementations. Start reading at Store.
package store

import (
	"context"
	"time"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Resource is a stored resource without its content.
type Resource struct {
	Tenant      string           `json:"tenant"`
	URI         string           `json:"uri"`
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	MIMEType    string           `json:"mimeType"`
	Annotations *mcp.Annotations `json:"annotations,omitzero"`
	// Binary is set if the content is not text.
	Binary bool `json:"binary,omitzero"`
	// Size of the content in bytes.
	Size int64 `json:"size"`
	// Revision is 1 when the resource is created and one more after each update.
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// Content is the content of a resource: text in UTF-8, or any bytes.
type Content struct {
	Bytes  []byte
	Binary bool
}

// Change is the content of an update; nil fields stay unchanged.
type Change struct {
	Name, Title, Description, MIMEType *string
	Annotations                        *mcp.Annotations
	// Content replaces the content; with Append it is added at the end, and must be of the same
	// kind.
	Content *Content
	Append  bool
}

// Query selects resources. All set conditions must hold; case is ignored.
type Query struct {
	// Prefix is the beginning of the URI.
	Prefix string
	// Name is part of the name or title.
	Name string
	// Text has at most MaxWords words. Each must be part of the name, title, description, URI or
	// the first SearchedText bytes of a text.
	Text string
	// MIMEType is the type, or a family such as image/*.
	MIMEType string
}

// Event says that a resource has changed.
type Event struct {
	Tenant, URI string
	// Kind is created, updated or deleted.
	Kind     string
	Revision int64
	// Listed is set if the resource's entry in lists has changed.
	Listed bool
}

// Kinds of Event.
const (
	Created = "created"
	Updated = "updated"
	Deleted = "deleted"
)

// Store keeps resources, each under its tenant and URI. Tenants do not see each
// other's. Its methods may be used from any goroutine, and any number of
// processes may have a Store on one database if that is Postgres.
//
// Every failure that a caller can do something about is a *fault.Error. A database that is away or
// does not answer is Unavailable, within 250 ms if there is no free connection and none is
// returned. Executed is "unknown" if the connection was lost at the commit, otherwise "no". After
// an error nothing is stored.
//
// Each write with an effect leaves an Event, in the same transaction, and one with a
// database.Key has that effect once.
type Store interface {
	// Create adds a resource. It ignores the fields of r that the store sets itself (Size,
	// Revision, times). Errors are Conflict with the present revision if the URI is taken,
	// InvalidParams and TooLarge from CheckURI, Resource.Check and Content.Check, and TooLarge
	// beyond the tenant's limit.
	Create(ctx context.Context, r Resource, c Content, key database.Key) (Resource, error)

	// Stat returns a resource without its content, or UnknownResource.
	Stat(ctx context.Context, tenant, uri string) (Resource, error)

	// Read returns a resource and its content at one revision, or UnknownResource. With admit, a
	// content of more than SmallRead bytes is read only after admit has returned nil for its size;
	// its error is returned unchanged.
	Read(ctx context.Context, tenant, uri string, admit func(size int64) error) (Resource, Content, error)

	// Update changes a resource and returns its new state. If expected is not 0, it must be the
	// present revision; otherwise the error is Conflict, whose data has the present one. If
	// concurrent updates expect the same revision, one succeeds. The error is UnknownResource if
	// there is no such resource.
	Update(ctx context.Context, tenant, uri string, expected int64, c Change, key database.Key) (Resource, error)

	// Delete removes a resource and returns its last state. Errors are Conflict and UnknownResource
	// as for Update.
	Delete(ctx context.Context, tenant, uri string, expected int64, key database.Key) (Resource, error)

	// List returns at most limit resources in the byte order of their URIs, beginning after a URI;
	// empty begins with the first. more is set if others follow. If each page continues after the
	// last URI of the previous one, a resource that exists the whole time is on exactly one page.
	List(ctx context.Context, tenant string, q Query, after string, limit int) (page []Resource, more bool, err error)

	// Relay passes unpublished events to publish, at most limit, in order for each resource, and
	// deletes them when publish returns nil. Only one Relay at a time runs on a database; others
	// return 0 at once. Each event is passed to publish at least once. n is the number published.
	Relay(ctx context.Context, limit int, publish func(context.Context, []Event) error) (n int, err error)

	// Close closes the database.
	Close()
}
