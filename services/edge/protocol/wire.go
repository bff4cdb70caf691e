package protocol

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// reply is the end of a request that did not fail. The zero reply means no response: the request
// was cancelled, or its client comes back for it.
type reply struct {
	// resultType is the result type of 2026-07-28; empty for none.
	resultType string
	// body is the result, a JSON object as a service or the edge made it, which is inserted
	// without being read. meta is its _meta.
	body, meta []byte
	// page replaces body if the result is a page of a list.
	page *catalogue.Page
	// hints are members that only a modern client gets.
	hints string
	// written is the whole response if it was written before.
	written []byte
	// rest, if set, goes on with a request that lasts, and returns how it ends.
	rest func(out Sender) (reply, error)
}

// complete is the result type of a result that begins nothing else.
const complete = "complete"

// result is a reply with only a result; nil for an empty one.
func result(body []byte) reply { return reply{resultType: complete, body: body} }

// Hints on caching.
const (
	// caching is for lists. The time is short, because a client that does not listen for changes
	// learns of them only when it is over.
	caching = `"ttlMs":5000,"cacheScope":"public"`
	// private is for a list that depends on the caller.
	private = `"ttlMs":5000,"cacheScope":"private"`
	// uncached is for the contents of a resource: the edge does not know when they change.
	uncached = `"ttlMs":0,"cacheScope":"private"`
)

// response is the message that ends a request, and its HTTP status; nil if no response is owed.
func (s *Server) response(r *Request, rep reply, err error) (status int, message []byte) {
	switch {
	case err != nil:
		return ErrorMessage(r.Message, r.Version, err)
	case rep.written != nil:
		return http.StatusOK, rep.written
	case rep.resultType == "":
		return 0, nil
	}
	members, own := inner(oneLine(rep.body)), inner(oneLine(rep.meta))
	size := len(members)
	if rep.page != nil {
		size = rep.page.Size()
	}
	b := buffer(size + len(own) + len(rep.hints) + len(s.infoMeta) + len(r.Message.ID) + 128)
	b = append(openResponse(b, r.Message.ID), `,"result":{`...)
	if !r.Modern() {
		b = rep.append(b, members)
		if len(own) > 0 {
			b = append(append(append(separate(b), `"_meta":{`...), own...), '}')
		}
		return http.StatusOK, append(b, `}}`...)
	}
	b = append(append(append(b, `"resultType":"`...), rep.resultType...), '"')
	if size > 0 {
		b = rep.append(append(b, ','), members)
	}
	if rep.hints != "" {
		b = append(append(b, ','), rep.hints...)
	}
	b = append(b, `,"_meta":{`...)
	if len(own) > 0 {
		b = append(append(b, own...), ',')
	}
	return http.StatusOK, append(append(b, s.infoMeta...), `}}}`...)
}

func (rep *reply) append(b, members []byte) []byte {
	if rep.page != nil {
		return rep.page.Append(b)
	}
	return append(b, members...)
}

// Large responses reuse the bytes of earlier ones: clearing and collecting new ones costs more
// than everything else about a page of a list.
const (
	leastKept = 16 << 10
	mostKept  = 512 << 10
)

var buffers sync.Pool // of *[]byte

// buffer is room for a response.
func buffer(size int) []byte {
	if size >= leastKept && size <= mostKept {
		if b, ok := buffers.Get().(*[]byte); ok && cap(*b) >= size {
			return (*b)[:0]
		}
	}
	return make([]byte, 0, size)
}

// A Writer is a Responder that may have written a response by the time Respond returns, and no
// longer reads its bytes.
type Writer interface{ Written() bool }

// free keeps the bytes of a response for others if out is done with them.
func free(out Responder, message []byte) {
	if c := cap(message); c < leastKept || c > mostKept {
		return
	}
	if w, ok := out.(Writer); ok && w.Written() {
		buffers.Put(&message)
	}
}

// ErrorMessage returns the JSON-RPC error response to a message, and its HTTP status. version is
// the protocol version, empty if unknown. docs/reference/errors.md has the table.
func ErrorMessage(m *mcp.Message, version string, err error) (status int, message []byte) {
	f := fault.From(err)
	b := append(make([]byte, 0, 256), `{"jsonrpc":"2.0"`...)
	if m != nil && m.ID != nil {
		b = append(append(b, `,"id":`...), m.ID...)
	}
	status, b = appendError(append(b, `,"error":`...), f, version)
	if m == nil && status == http.StatusOK {
		status = forms.ForReason(f.Reason).HTTP // no message was read that this could be the response to
	}
	return status, append(b, '}')
}

// appendError adds the error object of JSON-RPC.
func appendError(b []byte, f *fault.Error, version string) (status int, _ []byte) {
	status, code := forms.ForReason(f.Reason).MCP.In(version)
	text := f.Message
	if f.Reason == fault.DeadlineExceeded && version != mcp.Modern {
		text = "Tool execution timeout: " + text
	}
	b = strconv.AppendInt(append(b, `{"code":`...), int64(code), 10)
	b = appendQuoted(append(b, `,"message":`...), text)
	b = appendQuoted(append(b, `,"data":{"reason":`...), string(f.Reason))
	b = appendQuoted(append(b, `,"executed":`...), string(f.Executed))
	if f.RetryAfter > 0 {
		b = strconv.AppendInt(append(b, `,"retryAfterMs":`...), f.RetryAfter.Milliseconds(), 10)
	}
	if next := forms.Next(f, forms.MCP); next != "" {
		b = appendQuoted(append(b, `,"next":`...), next)
	}
	if more := inner(oneLine(f.Data)); len(more) > 0 {
		b = append(append(b, ','), more...)
	}
	return status, append(b, `}}`...)
}

// openResponse begins a message with an id.
func openResponse(b, id []byte) []byte {
	return append(append(b, `{"jsonrpc":"2.0","id":`...), id...)
}

// request is a request of the server.
func request(id, method string, params []byte) []byte {
	b := appendQuoted([]byte(`{"jsonrpc":"2.0","id":`), id)
	b = appendQuoted(append(b, `,"method":`...), method)
	if len(params) > 0 {
		b = append(append(b, `,"params":`...), oneLine(params)...)
	}
	return append(b, '}')
}

func notification(method string, params []byte) []byte {
	b := make([]byte, 0, len(method)+len(params)+48)
	b = append(append(append(b, `{"jsonrpc":"2.0","method":"`...), method...), '"')
	if params != nil {
		b = append(append(b, `,"params":`...), params...)
	}
	return append(b, '}')
}

// separate adds a comma unless an object has just begun.
func separate(b []byte) []byte {
	if b[len(b)-1] == '{' {
		return b
	}
	return append(b, ',')
}

// object is a JSON object with the given members.
func object(members []byte) []byte {
	return append(append(append(make([]byte, 0, len(members)+2), '{'), members...), '}')
}

// inner returns the members of a JSON object without its braces.
func inner(object []byte) []byte {
	object = bytes.TrimSpace(object)
	if len(object) < 2 {
		return nil
	}
	return bytes.TrimSpace(object[1 : len(object)-1])
}

// oneLine compacts a value that has line ends, at which some transports end a message. Services
// built with libs/service never send any.
func oneLine(v []byte) []byte {
	if bytes.IndexByte(v, '\n') < 0 && bytes.IndexByte(v, '\r') < 0 {
		return v
	}
	c := jsontext.Value(bytes.Clone(v))
	if err := c.Compact(); err != nil {
		return []byte("{}")
	}
	return c
}

func appendQuoted(b []byte, s string) []byte {
	q, err := jsontext.AppendQuote(b, s)
	if err != nil {
		// Not UTF-8: our messages always are, but a peer's may not be.
		q, _ = jsontext.AppendQuote(b, string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD"))))
	}
	return q
}

func appendNumber(b []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0
	}
	return strconv.AppendFloat(b, f, 'f', -1, 64)
}
