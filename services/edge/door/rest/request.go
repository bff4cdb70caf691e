package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// request is a request for an operation.
type request struct {
	h        *Handler
	w        http.ResponseWriter
	r        *http.Request
	who      api.Caller
	name     string // the rest of the path
	replayed bool
}

// operate carries out an operation.
func operate(o *api.Operation) handle {
	return func(h *Handler, w http.ResponseWriter, r *http.Request, who api.Caller, name string) error {
		q := &request{h: h, w: w, r: r, who: who, name: name}
		call, err := o.Run(q)
		if err != nil {
			return err
		}
		if o.Streams && door.Accepts(r.Header).EventsFirst {
			q.stream(call)
			return nil
		}
		q.who.Replayed = &q.replayed
		out, err := call.Carry(r.Context(), h.cfg.API, q.who)
		if q.replayed {
			w.Header().Set("Idempotency-Replayed", "true")
		}
		if o.Pages && fault.Is(err, fault.InvalidParams) {
			err = fault.From(err).Toward("GET " + r.URL.EscapedPath() + " without cursor begins the list; next_cursor of each answer has the next one")
		}
		if err != nil {
			return err
		}
		return q.answer(out)
	}
}

// Read implements api.Reader.
func (q *request) Read(in any) error {
	switch in := in.(type) {
	case *string:
		*in = q.name
	case *api.Page:
		return q.page(in)
	case *api.ToolCall:
		in.Name = q.name
		return q.object(mcp.MethodToolsCall, &in.Parameters)
	case *api.PromptCall:
		in.Name = q.name
		return q.object(mcp.MethodPromptsGet, &in.Arguments)
	case *jsontext.Value:
		if err := q.object(mcp.MethodSample, in); err != nil || *in != nil {
			return err
		}
		return fault.New(fault.InvalidRequest, "the body must be a JSON object with messages and max_tokens")
	case *api.Write:
		return q.resource(in)
	case *api.Decision:
		var body struct {
			Approve *bool `json:"approve"`
		}
		in.Approval = q.name
		err := q.members(&body, `{"approve":true} or {"approve":false}`, func() bool { return body.Approve != nil })
		in.Approve = body.Approve
		return err
	case *api.Answers:
		var body struct {
			Responses jsontext.Value `json:"responses"`
		}
		in.Elicitation = q.name
		err := q.members(&body, `{"responses":{…}}, which has {"action":"accept","content":{…}}, {"action":"decline"} or {"action":"cancel"} for each of the requests`,
			func() bool { return body.Responses.Kind() == '{' })
		in.Responses = body.Responses
		return err
	}
	return nil
}

// object reads the body as an object. Its errors are in the terms of the body in place of
// a kind of params.
func (q *request) object(kind string, to *jsontext.Value) (err error) {
	*to, err = q.h.body(q.w, q.r)
	return q.who.OfBody(kind, err)
}

// members reads a body that has one form only.
func (q *request) members(to any, form string, whole func() bool) error {
	body, err := q.h.body(q.w, q.r)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, to, json.RejectUnknownMembers(true)); err != nil || !whole() {
		return fault.New(fault.InvalidRequest, "the body must be %s", form).Because(err)
	}
	return nil
}

// Entries of a page, without ?limit= and at most.
const defaultPage, maxPage = 250, 1000

// page reads which part of a list is asked for.
func (q *request) page(p *api.Page) (err error) {
	query := q.r.URL.Query()
	p.Cursor, p.Limit = query.Get("cursor"), defaultPage
	if text := query.Get("limit"); text != "" {
		if p.Limit, err = strconv.Atoi(text); err != nil || p.Limit < 1 || p.Limit > maxPage {
			return fault.New(fault.InvalidParams, "limit is a number from 1 to %d", maxPage).Toward("without limit there are " + strconv.Itoa(defaultPage) + " of a list at once")
		}
	}
	return nil
}

// resource reads a resource, and the revision that the request requires.
func (q *request) resource(in *api.Write) (err error) {
	in.URI = q.name
	if match := q.r.Header.Get("If-Match"); match != "" && match != "*" {
		if in.Revision, err = strconv.ParseInt(strings.Trim(match, `"`), 10, 64); err != nil || in.Revision < 1 {
			return fault.New(fault.InvalidRequest, "If-Match is the revision of the resource, a number")
		}
	}
	var body jsontext.Value
	if err = q.object(forms.Resource, &body); err == nil {
		in.Resource, err = api.ReadResourceInput(body)
	}
	return err
}

// answer encodes an output.
func (q *request) answer(out any) error {
	switch out := out.(type) {
	case api.None:
		q.w.WriteHeader(http.StatusNoContent)
		return nil
	case *api.Written:
		return q.written(out)
	}
	return send(q.w, q.r, http.StatusOK, out)
}

func (q *request) written(out *api.Written) error {
	status := http.StatusOK
	if out.Created {
		status = http.StatusCreated
	}
	var about struct {
		URI      string `json:"uri"`
		Revision int64  `json:"revision"`
	}
	if err := json.Unmarshal(out.Entry, &about); err == nil {
		q.w.Header().Set("ETag", `"`+strconv.FormatInt(about.Revision, 10)+`"`)
		if out.Created {
			q.w.Header().Set("Location", "/resources/"+url.PathEscape(about.URI))
		}
	}
	return send(q.w, q.r, status, out.Entry)
}

// stream carries out a call and answers with events: progress and log as they come, and
// then result or error.
func (q *request) stream(call api.Carry) {
	ctx, cancel := context.WithCancel(q.r.Context())
	defer cancel()
	// A client that is gone has given up the call.
	events := door.NewEvents(q.w, cancel)
	defer events.Close()
	events.Notify(door.Comment)
	q.who.OnFrame = func(f *busv1.Frame) {
		if name, data := api.Event(f); name != "" {
			events.Notify(door.Event(name, data))
		}
	}
	kind := "result"
	out, err := call.Carry(ctx, q.h.cfg.API, q.who)
	if err != nil {
		kind, out = "error", door.Problem(err)
	}
	if b, err := json.Marshal(out); err == nil {
		events.Send(door.Event(kind, b))
	}
}
