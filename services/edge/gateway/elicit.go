package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/schema"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// maxAsked bounds what a tool asks, and what it keeps meanwhile, together with the
// arguments of the call, bytes.
//
//limit:message arguments, questions and state of a call that asks, outside MCP | `too_large`
const maxAsked = 128 << 10

// Methods of what people do about elicitations, as the audit trail names it; they
// are no methods of MCP.
const (
	MethodElicitationsList = "busbar/elicitations.list"
	MethodElicitationsGet  = "busbar/elicitations.get"
)

// Form is what a tool asks its caller to fill in.
type Question struct {
	Message string `json:"message"`
	// Schema of what is filled in: a flat object.
	Schema jsontext.Value `json:"requested_schema"`
}

// Forms are what a held call asks, by the keys that the answers have.
func Questions(held *store.HeldCall) (map[string]Question, error) {
	return readQuestions(held.Requests)
}

// readForms reads inputRequests of MCP. Doors that have them held take forms only, which
// is what they say to services.
func readQuestions(requests []byte) (map[string]Question, error) {
	var all map[string]struct {
		Method string `json:"method"`
		Params struct {
			Mode    string         `json:"mode,omitzero"`
			Message string         `json:"message,omitzero"`
			Schema  jsontext.Value `json:"requestedSchema,omitzero"`
		} `json:"params,omitzero"`
	}
	if err := json.Unmarshal(requests, &all); err != nil || len(all) == 0 {
		return nil, fault.New(fault.Internal, "the service asked for input in a form that is not MCP's").Because(err)
	}
	forms := make(map[string]Question, len(all))
	for key, q := range all {
		if q.Method != mcp.MethodElicit || cmp.Or(q.Params.Mode, "form") != "form" || q.Params.Schema == nil {
			return nil, fault.New(fault.MissingCapability, "the tool asks for %s, which this door cannot pass on; call it from a client over MCP that can", fault.Clip(q.Method))
		}
		if _, err := schema.Compile(q.Params.Schema); err != nil {
			return nil, fault.New(fault.Internal, "the tool's form is not a valid JSON Schema; report this to the operator of the service").Because(err).Ran(fault.No)
		}
		forms[key] = Question{Message: q.Params.Message, Schema: q.Params.Schema}
	}
	return forms, nil
}

// elicit keeps the call until its caller has answered what the tool asks. The error
// says what that is, and under which id.
func (r *run) elicit(ctx context.Context, cfg *Config, asked *busv1.InputRequired) error {
	forms, err := readQuestions(asked.InputRequests)
	switch {
	case err != nil:
		return err
	case cfg.Approvals == nil:
		return fault.New(fault.MissingCapability, "the tool asks its caller something, which this edge cannot keep; call it from a client over MCP that can")
	case len(asked.InputRequests)+len(asked.RequestState)+len(r.Arguments) > maxAsked:
		return fault.New(fault.TooLarge, "the arguments, what the tool asks and what it keeps until it is answered are more than the %d bytes that a door besides MCP's holds; call it from a client over MCP", maxAsked)
	}
	held := r.heldCall(store.Asked(r.Account)) // of anonymous callers, those of one address
	held.Requests, held.State = asked.InputRequests, asked.RequestState
	if err := cfg.Approvals.Hold(ctx, held); err != nil {
		return err
	}
	about := map[string]any{"elicitation": held.ID, "expires": held.Expires.Format(time.RFC3339)}
	who := "its caller"
	if r.Approval == nil || r.Approval.Waived || r.Approval.By.ID() == r.Principal.ID() { // else it is told to whom it is not for
		about["requests"], who = forms, "you"
	}
	data, err := json.Marshal(about, json.Deterministic(true))
	if err != nil {
		return err
	}
	return fault.New(fault.InputRequired, "tool %s asks %s something; the call is held for the answer until %s", fault.Clip(r.Name), who, held.Expires.Format("15:04 UTC")).With(data)
}

// heldCall is the call as it is kept for somebody.
func (r *run) heldCall(decider string) *store.HeldCall {
	held := &store.HeldCall{
		ID: rand.Text(), Principal: r.Principal.ID(), For: decider, Account: r.Account,
		Door: r.Door, Toolset: r.Credentials.Toolset, Method: r.Method, Name: r.Name, Title: r.Target.Tool.Title, Arguments: r.Arguments,
		Capabilities: r.Client.GetCapabilities(), IdempotencyKey: r.IdempotencyKey, Expires: time.Now().Add(store.ApprovalLife).UTC(),
	}
	if e := r.Principal.Expires; !e.IsZero() && e.Before(held.Expires) {
		held.Expires = e.UTC() // it may run as its caller
	}
	return held
}

// Elicitations returns the calls that wait for their caller's answer, the oldest first
// and at most 1,000, without their arguments.
func (g *Gateway) Elicitations(ctx context.Context, door string, credentials Credentials) (all []*store.HeldCall, err error) {
	look := g.look(MethodElicitationsList, "", door, credentials)
	defer func() { look.done(ctx, err) }()
	if _, err := look.authenticate(ctx); err != nil || g.cfg.Approvals == nil {
		return nil, err
	}
	err = g.cfg.Approvals.Held(ctx, store.Asked(look.r.Account), func(held *store.HeldCall) {
		if over(held) == nil {
			held.Arguments, held.Requests, held.State = nil, nil, nil // each may be large
			all = append(all, held)
		}
	})
	return oldest(all), err
}

// FindElicitation returns a call that waits for its caller's answer. The error has
// reason UnknownElicitation if no such call waits.
func (g *Gateway) FindElicitation(ctx context.Context, door string, credentials Credentials, id string) (held *store.HeldCall, err error) {
	look := g.look(MethodElicitationsGet, id, door, credentials)
	defer func() { look.done(ctx, err) }()
	if _, err := look.authenticate(ctx); err != nil {
		return nil, err
	}
	return g.asked(ctx, look.r.Account, id, Approvals.Look)
}

// asked finds what an account is asked, by Approvals.Look or Take.
func (g *Gateway) asked(ctx context.Context, account, id string, by func(Approvals, context.Context, string, string) (*store.HeldCall, error)) (*store.HeldCall, error) {
	if g.cfg.Approvals == nil {
		return nil, unknownElicitation()
	}
	held, err := by(g.cfg.Approvals, ctx, store.Asked(account), id)
	if err == nil {
		err = over(held)
	}
	if fault.Is(err, fault.UnknownApproval) {
		return nil, unknownElicitation().Ran(fault.From(err).Executed)
	}
	return held, err
}

func unknownElicitation() *fault.Error {
	return fault.New(fault.UnknownElicitation, "nothing with this id waits for your answer: it was answered already, its time is over, or it was never there; make the call again")
}

// Answer goes on with a call whose tool asked its caller, with the answers by key: a
// JSON object of ElicitResults of MCP, which have to be what was asked for. A call that
// fails before it runs can be answered again, for the rest of its time; one that asks
// more is held again, as another one.
func (g *Gateway) Answer(ctx context.Context, door string, credentials Credentials, id string, responses []byte, onFrame OnFrame) (*Answer, error) {
	look := g.look(MethodElicitationsGet, id, door, credentials)
	if _, err := look.authenticate(ctx); err != nil { // wrong answers count for limits, too
		return nil, err
	}
	held, err := g.asked(ctx, look.r.Account, id, Approvals.Look)
	if err != nil {
		return nil, err
	}
	if err := checkResponses(held.Requests, responses); err != nil {
		return nil, err
	}
	if held, err = g.asked(ctx, look.r.Account, id, Approvals.Take); err != nil {
		return nil, err
	}
	credentials.Toolset = held.Toolset // for the record: the call is what the set made of it
	r := newRun(&Call{
		Door: held.Door, Method: held.Method, Name: held.Name, Arguments: held.Arguments, Credentials: credentials,
		Client: &busv1.Client{Capabilities: held.Capabilities}, IdempotencyKey: held.IdempotencyKey,
		InputResponses: responses, RequestState: held.State, AskLater: true, WantsProgress: onFrame != nil,
	}, onFrame)
	r.found = true
	answer, err := g.do(ctx, r)
	if r.ranNot(err) && !fault.Is(err, fault.InputRequired) && !fault.Is(err, fault.ApprovalRequired) {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTime)
		defer cancel()
		// One that cannot be held again has to be made again, which is safe.
		_ = g.cfg.Approvals.Return(after, held)
	}
	return answer, err
}

// checkResponses requires an answer to each of the questions, of the form that was
// asked for. The error names the place.
func checkResponses(requests, responses []byte) error {
	var asked, all map[string]jsontext.Value
	if err := json.Unmarshal(requests, &asked); err != nil {
		return fault.From(err)
	}
	if err := json.Unmarshal(responses, &all); err != nil {
		return fault.New(fault.InvalidParams, `responses is an object that has for each of the requests {"action":"accept","content":{…}}, {"action":"decline"} or {"action":"cancel"}`).Because(err)
	}
	for key := range all {
		if asked[key] == nil {
			return fault.New(fault.InvalidParams, "responses has %s, which nobody asked for", fault.Clip(key))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(asked)) {
		at := "responses." + fault.Clip(key)
		if all[key] == nil {
			return fault.New(fault.InvalidParams, "%s is missing", at)
		}
		if err := service.CheckAnswer(at, asked[key], all[key]); err != nil {
			return err
		}
	}
	return nil
}
