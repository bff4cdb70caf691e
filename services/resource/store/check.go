package store

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Limits of one resource.
const (
	// MaxContent is in bytes.
	//limit:store content of a resource | `too_large`
	MaxContent = 16 << 20
	// SmallRead is the largest content that is read without admission, in bytes.
	SmallRead = 256 << 10
	// MaxURI, MaxName and MaxDescription are in bytes; MaxName also limits title and MIME type.
	MaxURI = 2048
	//limit:store.bytes name, title or MIME type of a resource | `invalid_params`
	MaxName = 512
	//limit:store description of a resource | `invalid_params`
	MaxDescription = 8 << 10
	// MaxTenant limits the names of tenants and of callers, in bytes.
	MaxTenant = 256
	// SearchedText is how much of a text Query.Text searches, in bytes.
	//limit:store text of one resource that a search reads | the rest is ignored
	SearchedText = 64 << 10
	// MaxWords is how many words a Query may have.
	MaxWords = 8
)

// CheckURI requires an absolute URI: a scheme, a colon and at least one more character, in UTF-8
// without spaces, control characters and noncharacters. URIs are compared byte by byte and never
// resolved. The error is InvalidParams.
func CheckURI(uri string) error {
	scheme, rest, ok := strings.Cut(uri, ":")
	ok = ok && rest != "" && scheme != ""
	for i := range len(scheme) {
		c := scheme[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		ok = ok && (letter || i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'))
	}
	if !ok {
		return fault.New(fault.InvalidParams, "uri must be absolute, such as example://document1")
	}
	if len(uri) > MaxURI {
		return fault.New(fault.InvalidParams, "uri has %d bytes; the limit is %d", len(uri), MaxURI)
	}
	if !utf8.ValidString(uri) || strings.ContainsFunc(uri, func(r rune) bool {
		return unicode.IsControl(r) || unicode.IsSpace(r) || r&0xFFFE == 0xFFFE
	}) {
		return fault.New(fault.InvalidParams, "uri must not have spaces or control characters; write them as %%20 and so on")
	}
	return nil
}

// Check requires a name and limits every text. The error is InvalidParams.
func (r Resource) Check() error {
	if err := CheckURI(r.URI); err != nil {
		return err
	}
	if r.Name == "" {
		return fault.New(fault.InvalidParams, "name is empty")
	}
	for _, f := range []struct {
		name, value string
		most        int
	}{
		{"name", r.Name, MaxName}, {"title", r.Title, MaxName}, {"mimeType", r.MIMEType, MaxName},
		{"description", r.Description, MaxDescription}, {"tenant", r.Tenant, MaxTenant},
	} {
		if len(f.value) > f.most {
			return fault.New(fault.InvalidParams, "%s has %d bytes; the limit is %d", f.name, len(f.value), f.most)
		}
		if !utf8.ValidString(f.value) || strings.ContainsRune(f.value, 0) {
			return fault.New(fault.InvalidParams, "%s must be UTF-8 without NUL", f.name)
		}
	}
	if a := r.Annotations; a != nil {
		for _, who := range a.Audience {
			if who != "user" && who != "assistant" {
				return fault.New(fault.InvalidParams, "annotations.audience holds user, assistant or both")
			}
		}
		if len(a.Audience) > 2 || len(a.LastModified) > 64 || a.Priority != nil && !(*a.Priority >= 0 && *a.Priority <= 1) {
			return fault.New(fault.InvalidParams, "annotations: an audience of user and assistant, a priority from 0 to 1, and an ISO 8601 time as lastModified")
		}
	}
	return nil
}

// Check limits the content, and requires that text is UTF-8. The error is TooLarge or
// InvalidParams.
func (c Content) Check() error {
	if len(c.Bytes) > MaxContent {
		return fault.New(fault.TooLarge, "the content has %d bytes; the limit is %d", len(c.Bytes), MaxContent)
	}
	if !c.Binary && !utf8.Valid(c.Bytes) {
		return fault.New(fault.InvalidParams, "text must be UTF-8; send other bytes as blob")
	}
	return nil
}

// ContentOf makes a content from bytes: text if they are UTF-8 without NUL.
func ContentOf(b []byte) Content {
	return Content{Bytes: b, Binary: !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0}
}

// NotFound is the error for a URI without a stored resource.
func NotFound(uri string) error {
	return fault.New(fault.UnknownResource, "Resource not found: %s", fault.Clip(uri)).With(data(uri, 0))
}

// Taken is the error for a URI that already has a resource.
func Taken(uri string, present int64) error {
	return fault.New(fault.Conflict, "there is a resource %s already, at revision %d; update it instead", fault.Clip(uri), present).With(data(uri, present))
}

// Changed is the error if the expected revision is not the present one.
func Changed(uri string, expected, present int64) error {
	return fault.New(fault.Conflict, "resource %s is at revision %d, not %d; read it again", fault.Clip(uri), present, expected).With(data(uri, present))
}

func data(uri string, revision int64) []byte {
	b, err := jsontext.AppendQuote([]byte(`{"uri":`), uri)
	if err != nil {
		return nil
	}
	if revision > 0 {
		b = strconv.AppendInt(append(b, `,"revision":`...), revision, 10)
	}
	return append(b, '}')
}
