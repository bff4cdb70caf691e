package doors

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/services/edge/api"
)

// question is a request for an operation, whatever the door.
type question struct {
	// about is the name, URI or id that it is about.
	about string
	// body is the body of plain HTTP, a JSON value; other doors send its parts.
	body  string
	token string
	key   string // an idempotency key
}

// askers make a request for an operation, one for each door. Of an answer, an outcome has
// nothing; of a refusal, its reason and whether it ran.
var askers = map[string]struct {
	offers func(o *api.Operation) bool
	ask    func(ctx context.Context, t *testing.T, w *world, o *api.Operation, q question) outcome
}{
	"HTTP":      {func(o *api.Operation) bool { return o.HTTP.Path != "" }, askHTTP},
	"GraphQL":   {func(o *api.Operation) bool { return o.GraphQL != nil && o.GraphQL[0].Root != "Subscription" }, askGraphQL},
	"gRPC":      {func(o *api.Operation) bool { return o.GRPC != "" }, askGRPC},
	"WebSocket": {func(o *api.Operation) bool { return o.Message.Type != "" }, askMessage},
}

func askHTTP(ctx context.Context, t *testing.T, w *world, o *api.Operation, q question) outcome {
	t.Helper()
	method, path, _ := strings.Cut(o.HTTP.Path, " ")
	path = regexp.MustCompile(`\{\w+\}`).ReplaceAllLiteralString(path, url.PathEscape(q.about))
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.host+path, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + q.token}, "Content-Type": {"application/json"}}
	if q.key != "" {
		r.Header.Set("Idempotency-Key", q.key)
	}
	resp, err := w.client.Do(r)
	if err != nil {
		return outcome{reason: "cancelled"} // the client itself has
	}
	defer func() { _ = resp.Body.Close() }()
	if o := byHeaders(t, resp, ""); o.reason != "" {
		return outcome{reason: o.reason, executed: o.executed}
	}
	var batch struct {
		Results []jsontext.Value `json:"results"`
	}
	if o.Name == "batchTools" && json.UnmarshalRead(resp.Body, &batch) == nil {
		return first(t, batch.Results)
	}
	return outcome{}
}

// first is the outcome of the only call of a batch.
func first(t *testing.T, slots []jsontext.Value) outcome {
	t.Helper()
	if len(slots) != 1 {
		t.Errorf("%d slots", len(slots))
		return outcome{}
	}
	o := slot(t, slots[0])
	return outcome{reason: o.reason, executed: o.executed}
}

// members are the members of a body that is an object.
func (q question) members() map[string]jsontext.Value {
	all := map[string]jsontext.Value{}
	_ = json.Unmarshal([]byte(q.body), &all)
	return all
}

// object is an object of some members, those left out that have no value.
func object(members ...string) string {
	var parts []string
	for i := 0; i < len(members); i += 2 {
		if members[i+1] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", members[i], members[i+1]))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	b, _ := json.Marshal(s)
	return string(b)
}

func askGraphQL(ctx context.Context, t *testing.T, w *world, o *api.Operation, q question) outcome {
	t.Helper()
	field := o.GraphQL[0]
	name, signature, _ := strings.Cut(field.Is, "(")
	declared, given, variables := "", "", []string{}
	for _, a := range regexp.MustCompile(`(\w+): ([\w!\[\]]+)`).FindAllStringSubmatch(strings.Split(signature, ")")[0], -1) {
		value := ""
		switch a[2] {
		case "String!":
			value = quote(q.about)
		case "ToolInput!":
			value = object("name", quote(q.about), "parameters", q.body, "idempotency_key", quote(q.key))
		case "[ToolInput!]!":
			value = string(q.members()["calls"])
		case "PromptInput!":
			value = object("name", quote(q.about), "arguments", q.body)
		case "ResourceInput!":
			value = q.body
		case "Boolean!", "JSON!":
			value = string(q.members()[a[1]])
		default:
			continue
		}
		declared, given, variables = declared+"$"+a[1]+":"+a[2]+" ", given+a[1]+":$"+a[1]+" ", append(variables, a[1], value)
	}
	if given != "" {
		declared, given = "("+declared+")", "("+given+")"
	} else {
		name, _, _ = strings.Cut(name, ":")
	}
	selected := "__typename"
	if o.Name == "batchTools" {
		selected = "is_error error reason executed"
	}
	document := strings.ToLower(field.Root) + declared + "{done:" + name + given + "{" + selected + "}}"
	_, body := w.post(ctx, t, "/graphql", q.token, object("query", quote(document), "variables", object(variables...)))
	var r graphQLResponse
	if err := json.Unmarshal(body, &r); err != nil {
		return outcome{reason: "cancelled"}
	}
	if len(r.Errors) > 0 {
		refused := refusal(t, r.Errors[0].Extensions)
		return outcome{reason: refused.reason, executed: refused.executed}
	}
	var slots []jsontext.Value
	if o.Name == "batchTools" && json.Unmarshal(r.Data.Done, &slots) == nil {
		return first(t, slots)
	}
	return outcome{}
}

func askMessage(ctx context.Context, t *testing.T, w *world, o *api.Operation, q question) outcome {
	t.Helper()
	data := q.body
	switch o.Name {
	case "callTool":
		data = object("name", quote(q.about), "parameters", q.body, "idempotency_key", quote(q.key))
	case "runPrompt":
		data = object("name", quote(q.about), "arguments", q.body)
	case "readResource":
		data = object("uri", quote(q.about))
	case "approve":
		data = object("approval", quote(q.about), "approve", string(q.members()["approve"]))
	case "answerElicitation":
		data = object("elicitation", quote(q.about), "responses", string(q.members()["responses"]))
	}
	return w.socket(ctx, t, q.token, "/ws", "busbar", func(s *socket) outcome {
		s.send(`{"type":"` + o.Message.Type + `","id":1,"data":` + data + `}`)
		b, ok := s.next()
		if !ok {
			return outcome{reason: "cancelled"}
		}
		var m struct {
			Type  string         `json:"type"`
			Data  jsontext.Value `json:"data"`
			Error struct {
				Data jsontext.Value `json:"data"`
			} `json:"error"`
		}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Errorf("%v: %s", err, b)
		}
		switch m.Type {
		case "error":
			refused := refusal(t, m.Error.Data)
			return outcome{reason: refused.reason, executed: refused.executed}
		case "batch_result":
			return first(t, []jsontext.Value{m.Data})
		case o.Message.Answer:
			return outcome{}
		}
		t.Errorf("%s is answered by %s", o.Message.Type, b)
		return outcome{}
	})
}

func askGRPC(ctx context.Context, t *testing.T, w *world, o *api.Operation, q question) outcome {
	t.Helper()
	method := gatewayv1.File_busbar_gateway_v1_gateway_proto.Services().Get(0).Methods().ByName(protoreflect.Name(o.GRPC))
	if o.Name == "batchTools" { // its first call
		calls := q.members()["calls"]
		var all []struct {
			Name       string         `json:"name"`
			Parameters jsontext.Value `json:"parameters"`
		}
		if json.Unmarshal(calls, &all) == nil && len(all) > 0 {
			q.about, q.body = all[0].Name, string(all[0].Parameters)
		}
	}
	values := map[protoreflect.Name]string{
		"name": quote(q.about), "uri": quote(q.about), "approval": quote(q.about), "elicitation": quote(q.about), "uris": "[" + quote(q.about) + "]",
		"arguments_text": quote(q.body), "idempotency_key": quote(q.key), "approve": string(q.members()["approve"]), "responses_text": quote(string(q.members()["responses"])),
	}
	in, out := dynamicpb.NewMessage(method.Input()), dynamicpb.NewMessage(method.Output())
	var members []string
	for i := range method.Input().Fields().Len() {
		name := method.Input().Fields().Get(i).Name()
		members = append(members, string(name), values[name])
	}
	if err := protojson.Unmarshal([]byte(object(members...)), in); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(withToken(ctx, call{token: q.token}))
	defer stop()
	stream, err := w.conn.NewStream(ctx, &rpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+gatewayv1.GatewayService_ServiceDesc.ServiceName+"/"+o.GRPC)
	if err == nil {
		_ = stream.SendMsg(in) // RecvMsg says why not
		_ = stream.CloseSend()
		err = stream.RecvMsg(out)
	}
	if err != nil {
		refused := status(t, err)
		if refused.reason == "" && refused.said == "CANCELLED" {
			refused.reason = "cancelled" // by the client itself
		}
		return outcome{reason: refused.reason, executed: refused.executed}
	}
	if failure := out.Descriptor().Fields().ByName("failure"); failure != nil && out.Has(failure) {
		f := out.Get(failure).Message()
		part := func(name protoreflect.Name) string { return f.Get(f.Descriptor().Fields().ByName(name)).String() }
		return outcome{reason: part("reason"), executed: part("executed")}
	}
	return outcome{}
}

// ordinary is a valid request for each operation, by name, and the reason of its refusal. It names
// things that are not there, so that it does nothing.
var ordinary = map[string]struct {
	question
	reason string
}{
	"listTools": {}, "listPrompts": {}, "listResources": {}, "listApprovals": {}, "listElicitations": {}, "whoAmI": {}, "watch": {question{about: "x:y"}, ""},
	"getTool":           {question{about: "nope"}, "unknown_tool"},
	"callTool":          {question{about: "nope", body: `{}`}, "unknown_tool"},
	"batchTools":        {question{body: `{"calls":[{"name":"nope","parameters":{}}]}`}, "unknown_tool"},
	"getPrompt":         {question{about: "nope"}, "unknown_prompt"},
	"runPrompt":         {question{about: "nope", body: `{}`}, "unknown_prompt"},
	"readResource":      {question{about: "x:y"}, "unknown_resource"},
	"createResource":    {question{body: `{"uri":"x:y","name":"n","content":"long"}`}, "invalid_params"},
	"putResource":       {question{about: "x:y", body: `{"content":"x"}`}, "unavailable"},
	"patchResource":     {question{about: "x:y", body: `{"content":"x"}`}, "unavailable"},
	"deleteResource":    {question{about: "x:y"}, "unavailable"},
	"sample":            {question{body: `{"messages":[{"role":"user","content":{"type":"text","text":"x"}}],"max_tokens":1}`}, "unavailable"},
	"getApproval":       {question{about: "nope"}, "unknown_approval"},
	"approve":           {question{about: "nope", body: `{"approve":true}`}, "unknown_approval"},
	"getElicitation":    {question{about: "nope"}, "unknown_elicitation"},
	"answerElicitation": {question{about: "nope", body: `{"responses":{}}`}, "unknown_elicitation"},
}

// TestOperations asks for every operation of the table at every door that its entry names, and
// requires that the outcome is the same everywhere: of an ordinary request, and of one by nobody.
// Every method of gRPC belongs to an operation. So does every field of GraphQL, which its
// library checks. Plain HTTP and WebSocket have no others.
func TestOperations(t *testing.T) {
	w := together.Use(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	methods := slices.Concat(methodsOf(gatewayv1.GatewayService_ServiceDesc), streamsOf(gatewayv1.GatewayService_ServiceDesc))
	for _, o := range api.Operations {
		c, known := ordinary[o.Name]
		if !known {
			t.Errorf("there is no request for %s", o.Name)
		}
		methods = slices.DeleteFunc(methods, func(m string) bool { return m == o.GRPC })
		for name, door := range askers {
			if !door.offers(o) {
				continue
			}
			ask := func(token string) outcome {
				q := c.question
				q.token = token
				return door.ask(ctx, t, w, o, q)
			}
			if got := w.patiently(ctx, o.Name+name, c.reason == "unavailable", func() outcome { return ask(ada) }); got.reason != c.reason {
				t.Errorf("%s at %s: %+v, want %q", o.Name, name, got, c.reason)
			}
			if got := ask(nobody); got.reason != "unauthenticated" || got.executed != "no" {
				t.Errorf("%s at %s by nobody: %+v", o.Name, name, got)
			}
		}
	}
	if len(methods) > 0 {
		t.Errorf("methods of gRPC that no operation has: %v", methods)
	}
}
