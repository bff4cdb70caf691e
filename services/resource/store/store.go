// Package store is what keeps resources: the contract of a Store, which
// store/table fulfils and store/storetest checks.
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
	// Binary says that the content is not text.
	Binary bool `json:"binary,omitzero"`
	// Size of the content in bytes.
	Size int64 `json:"size"`
	// Revision is 1 when the resource is created and one more after each update.
	Revision int64     `json:"revision"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
}

// Content is what is read of a resource: text in UTF-8, or any bytes.
type Content struct {
	Bytes  []byte
	Binary bool
}

// Change is what an update changes; nil leaves as it is.
type Change struct {
	Name, Title, Description, MIMEType *string
	Annotations                        *mcp.Annotations
	// Content replaces the content, and with Append goes behind it, which must be
	// of the same kind.
	Content *Content
	Append  bool
}

// Query says what to list. Conditions that are set must all hold; letters are
// compared without case.
type Query struct {
	// Prefix is what the URI begins with.
	Prefix string
	// Name is part of the name or title.
	Name string
	// Text are words, each of which is part of the name, title, description, URI
	// or the first SearchedText bytes of a text; at most MaxWords.
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
	// Listed says that the resource's entry in a list is another.
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
// Every failure that a caller can do something about is a *fault.Error. A
// database that is away or does not answer is Unavailable, within 250 ms if no
// connection can be had and nobody gives one back; executed is "unknown" if it was lost at the commit, and
// else "no". An error leaves nothing behind.
//
// Each write with an effect leaves an Event, in the same transaction, and one with a
// database.Key has that effect once.
type Store interface {
	// Create adds a resource; of r, what the store gives itself is ignored (Size,
	// Revision, times). Conflict with the present revision when the URI is taken,
	// InvalidParams and TooLarge as CheckURI, Resource.Check and Content.Check say;
	// TooLarge also when more would be kept for the tenant than may be.
	Create(ctx context.Context, r Resource, c Content, key database.Key) (Resource, error)

	// Stat returns a resource without its content; UnknownResource when there is
	// none.
	Stat(ctx context.Context, tenant, uri string) (Resource, error)

	// Read returns a resource and its content as of one revision; UnknownResource
	// when there is none. With admit, a content of more than SmallRead bytes is read
	// only after admit has returned nil for its size; its error is returned as it is.
	Read(ctx context.Context, tenant, uri string, admit func(size int64) error) (Resource, Content, error)

	// Update changes a resource and returns it as it is then. If expected is not
	// 0, the revision must be that; otherwise Conflict, whose data has the present
	// one. Of updates at the same time that expect the same revision, one
	// succeeds. UnknownResource when there is no such resource.
	Update(ctx context.Context, tenant, uri string, expected int64, c Change, key database.Key) (Resource, error)

	// Delete removes a resource and returns what it was. Conflict and
	// UnknownResource as with Update.
	Delete(ctx context.Context, tenant, uri string, expected int64, key database.Key) (Resource, error)

	// List returns at most limit resources in the order of their URIs' bytes, from
	// the first after a URI on; empty begins. more says that others follow. A
	// resource that is there all the while is on exactly one of the pages that are
	// read by going on after the last URI of the one before.
	List(ctx context.Context, tenant string, q Query, after string, limit int) (page []Resource, more bool, err error)

	// Relay gives publish events that were not published yet, at most limit, those
	// of one resource in their order, and forgets them when it returns nil. One
	// Relay at a time runs on a database; others return 0 at once. Each event is
	// given to publish at least once. n is how many were published.
	Relay(ctx context.Context, limit int, publish func(context.Context, []Event) error) (n int, err error)

	// Close closes the database.
	Close()
}
