package resource

import (
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// CreateIn are the arguments of create_resource.
type CreateIn struct {
	URI         string           `json:"uri" jsonschema:"any absolute URI, such as example://document1"`
	Name        string           `json:"name,omitzero" jsonschema:"short name; without it, the last part of the URI"`
	Title       string           `json:"title,omitzero" jsonschema:"name for people"`
	Description string           `json:"description,omitzero" jsonschema:"what the resource is"`
	MIMEType    string           `json:"mimeType,omitzero" jsonschema:"without it, text/plain or application/octet-stream"`
	Text        *string          `json:"text,omitzero" jsonschema:"the content, if it is text"`
	Blob        *string          `json:"blob,omitzero" jsonschema:"the content in base64, if it is not text"`
	Annotations *mcp.Annotations `json:"annotations,omitzero" jsonschema:"for whom it is and how much it matters"`
}

// UpdateIn are the arguments of update_resource.
type UpdateIn struct {
	URI              string           `json:"uri" jsonschema:"which resource"`
	ExpectedRevision int64            `json:"expectedRevision,omitzero" jsonschema:"the revision that was read; the update is refused if it is another by now"`
	Name             *string          `json:"name,omitzero"`
	Title            *string          `json:"title,omitzero"`
	Description      *string          `json:"description,omitzero"`
	MIMEType         *string          `json:"mimeType,omitzero"`
	Text             *string          `json:"text,omitzero" jsonschema:"the new content, if it is text"`
	Blob             *string          `json:"blob,omitzero" jsonschema:"the new content in base64, if it is not text"`
	Append           bool             `json:"append,omitzero" jsonschema:"put text or blob behind the content there is"`
	Annotations      *mcp.Annotations `json:"annotations,omitzero"`
}

// DeleteIn are the arguments of delete_resource.
type DeleteIn struct {
	URI              string `json:"uri" jsonschema:"which resource"`
	ExpectedRevision int64  `json:"expectedRevision,omitzero" jsonschema:"refuse if the revision is another"`
}

// ReadIn are the arguments of read_resource.
type ReadIn struct {
	URI    string `json:"uri" jsonschema:"which resource"`
	Offset int64  `json:"offset,omitzero" jsonschema:"bytes to skip"`
	Limit  int    `json:"limit,omitzero" jsonschema:"most bytes to read, up to 1048576; 65536 if not given"`
}

// ListIn are the arguments of list_resources.
type ListIn struct {
	Prefix string `json:"prefix,omitzero" jsonschema:"what the URIs begin with"`
	Cursor string `json:"cursor,omitzero" jsonschema:"nextCursor of the page before"`
	Limit  int    `json:"limit,omitzero" jsonschema:"most resources of a page, up to 250; 50 if not given"`
}

// SearchIn are the arguments of search_resources.
type SearchIn struct {
	Query    string `json:"query,omitzero" jsonschema:"words, all of which must be in the name, title, description, URI or the first 64 KiB of the text"`
	Name     string `json:"name,omitzero" jsonschema:"part of the name or title"`
	MIMEType string `json:"mimeType,omitzero" jsonschema:"the type, or a family such as image/*"`
	Prefix   string `json:"prefix,omitzero" jsonschema:"what the URIs begin with"`
	Cursor   string `json:"cursor,omitzero" jsonschema:"nextCursor of the page before"`
	Limit    int    `json:"limit,omitzero" jsonschema:"most resources of a page, up to 250; 50 if not given"`
}

// Entry is a stored resource without its content.
type Entry struct {
	URI         string           `json:"uri"`
	Name        string           `json:"name"`
	Title       string           `json:"title,omitzero"`
	Description string           `json:"description,omitzero"`
	MIMEType    string           `json:"mimeType"`
	Size        int64            `json:"size" jsonschema:"bytes of the content"`
	Annotations *mcp.Annotations `json:"annotations,omitzero"`
	Revision    int64            `json:"revision" jsonschema:"one more after each update"`
	CreatedAt   time.Time        `json:"createdAt"`
	UpdatedAt   time.Time        `json:"updatedAt"`
}

// ListOut is the result of list_resources and search_resources.
type ListOut struct {
	Resources  []Entry `json:"resources"`
	NextCursor string  `json:"nextCursor,omitzero" jsonschema:"where the next page begins; absent on the last"`
}

// ReadOut is the result of read_resource.
type ReadOut struct {
	URI        string  `json:"uri"`
	MIMEType   string  `json:"mimeType,omitzero"`
	Text       *string `json:"text,omitzero"`
	Blob       *string `json:"blob,omitzero" jsonschema:"base64"`
	Size       int64   `json:"size" jsonschema:"bytes of the whole content"`
	NextOffset int64   `json:"nextOffset,omitzero" jsonschema:"where to read on; absent at the end"`
	Revision   int64   `json:"revision,omitzero"`
}

func entry(r store.Resource) Entry {
	return Entry{
		URI: r.URI, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType,
		Size: r.Size, Annotations: r.Annotations, Revision: r.Revision, CreatedAt: r.Created, UpdatedAt: r.Updated,
	}
}

func (r *resources) addTools() {
	yes, no := true, false
	service.AddTool(r.Service, service.Tool{
		Name: "create_resource", Title: "Create resource",
		Description: "Stores a new resource under a URI of your choice. A text or blob of more than 512 KiB is stored in parts: create it with the first, and append the others with update_resource.",
		KeepsKeys:   true, Annotations: mcp.ToolAnnotations{DestructiveHint: &no, OpenWorldHint: &no},
	}, r.create)
	service.AddTool(r.Service, service.Tool{
		Name: "read_resource", Title: "Read resource", Description: "Reads a resource, or a part of it.",
		ReadOnly: true, Idempotent: true,
	}, r.readPart)
	service.AddTool(r.Service, service.Tool{
		Name: "update_resource", Title: "Update resource",
		Description: "Changes a stored resource: its content or its metadata. Fields that are left out stay. With expectedRevision a change by another writer is not overwritten.",
		KeepsKeys:   true, Annotations: mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
	}, r.update)
	service.AddTool(r.Service, service.Tool{
		Name: "delete_resource", Title: "Delete resource", Description: "Removes a stored resource for good.",
		Idempotent: true, KeepsKeys: true, Annotations: mcp.ToolAnnotations{DestructiveHint: &yes, OpenWorldHint: &no},
	}, r.delete)
	service.AddTool(r.Service, service.Tool{
		Name: "list_resources", Title: "List resources", Description: "Lists stored resources in the order of their URIs.",
		ReadOnly: true, Idempotent: true, Annotations: mcp.ToolAnnotations{OpenWorldHint: &no},
	}, r.list)
	service.AddTool(r.Service, service.Tool{
		Name: "search_resources", Title: "Search resources", Description: "Finds stored resources by words, name, type and URI, without regard to case.",
		ReadOnly: true, Idempotent: true, Annotations: mcp.ToolAnnotations{OpenWorldHint: &no},
	}, r.search)
}
