package forms

import (
	"cmp"
	"net/url"
	"regexp"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Way is the advice after a failure, in the terms of each protocol. It is empty if the
// message has the advice, or if nobody has any.
type Way struct {
	MCP string
	// HTTP is for HTTP doors that are not MCP's, and WebSocket for /ws.
	HTTP, GraphQL, GRPC, WebSocket string
}

// WayOn is the advice for a reason. docs/reference/errors.md shows the table.
func WayOn(r fault.Reason) Way { return ways[r] }

// The doors with advice of their own, by the names that calls use. All others have
// HTTP's.
const (
	MCP       = ""
	HTTP      = "rest"
	GraphQL   = "graphql"
	GRPC      = "grpc"
	WebSocket = "websocket"
)

// Next is the advice after a failure, in the terms of a door: the failure's own, or the
// advice for its reason.
func Next(f *fault.Error, door string) string {
	way := WayOn(f.Reason)
	if f.Executed == fault.No && way == repeat {
		return cmp.Or(f.Next, unbegun)
	}
	return cmp.Or(f.Next, way.at(door))
}

// at is the advice in the terms of a door.
func (w Way) at(door string) string {
	switch door {
	case MCP:
		return w.MCP
	case GraphQL:
		return w.GraphQL
	case GRPC:
		return w.GRPC
	case WebSocket:
		return w.WebSocket
	}
	return w.HTTP
}

// OfBody is the advice after a request with a wrong body, at doors that take a body in
// place of MCP's params: to fill in a prompt (prompts/get), to ask a model
// (sampling/createMessage) or to write a resource (Resource). It is empty for other
// kinds, and for doors without that request.
func OfBody(kind, door string) string { return bodies[kind].at(door) }

// Resource is the kind of a body that holds a resource.
const Resource = "resource"

var bodies = map[string]Way{
	mcp.MethodPromptsGet: {
		"", "GET /prompts/{name} has the arguments of a prompt", "getPrompt has the arguments of a prompt",
		"ListPrompts has the arguments of each prompt", "GET /prompts/{name} has the arguments of a prompt",
	},
	mcp.MethodSample: {
		HTTP:      "compare the body with POST /sampling in /openapi.json",
		WebSocket: "compare data with the body of POST /sampling in /openapi.json",
	},
	Resource: {
		HTTP:    "compare the body with POST /resources in /openapi.json",
		GraphQL: "compare input with ResourceInput of the schema: { __type(name: \"ResourceInput\") { inputFields { name } } }",
	},
}

// inSets are the lists that each toolset has, at paths over HTTP.
var inSets = regexp.MustCompile(`GET /(tools|prompts|resources|openapi\.json)\b`)

// NextIn is Next for a call through a toolset: its lists are the lists of the set.
func NextIn(f *fault.Error, door, set string) string {
	next := Next(f, door)
	if set == "" || f.Reason == fault.UnknownToolset {
		return next
	}
	return inSets.ReplaceAllString(next, "GET /toolsets/"+strings.ReplaceAll(url.PathEscape(set), "$", "$$")+"/$1")
}

// everywhere is advice that is the same at every door but MCP's.
func everywhere(mcp, others string) Way { return Way{mcp, others, others, others, others} }

const (
	hasPaths   = "GET /openapi.json has every path, its methods and its bodies"
	hasSchema  = "query { __schema { types { name fields { name } } } } for what there is"
	hasMethods = "busbar.gateway.v1.GatewayService has the methods and messages"
	mayDo      = "GET /access says who you are here; who runs this edge decides what you may do"
	comeBack   = "call again when the time to wait is over"
	unsure     = "look whether it ran before you call again; a call with an idempotency key can be repeated: "
	unbegun    = "nothing ran: call again"
	shorter    = "send or ask for less at once"
	overMCP    = "call it over MCP, at /mcp, with a client that can be asked"
	report     = "tell who runs this edge; its log names the call"
)

// ways has the advice by reason. MCP has no advice to approve a call: models read its
// messages, and must not approve in place of a person.
var ways = map[fault.Reason]Way{
	fault.ParseError:     {"", hasPaths, hasSchema, hasMethods, `send {"type":"tool_request","id":1,"data":{"name":…,"parameters":{…}}}`},
	fault.InvalidRequest: {"", hasPaths, hasSchema, hasMethods, `send {"type":"tool_request","id":1,"data":{"name":…,"parameters":{…}}}`},
	fault.TooLarge:       everywhere("", shorter),
	fault.MethodNotFound: {"initialize, or server/discover with 2026-07-28, says what there is", hasPaths, hasSchema, hasMethods, "send tool_request, batch_request, resource_request, prompt_request, sampling_request, approval_response, elicitation_response, initialize or cancel"},
	fault.InvalidParams: {
		"tools/list has the inputSchema of each tool, prompts/list the arguments of each prompt",
		"GET /tools/{name} has the input_schema of a tool, GET /prompts/{name} the arguments of a prompt",
		"getTool has the input_schema of a tool, getPrompt the arguments of a prompt",
		"ListTools has the input_schema of each tool, ListPrompts the arguments of each prompt",
		"GET /tools/{name} has the input_schema of a tool, GET /prompts/{name} the arguments of a prompt",
	},
	fault.UnknownTool:        {"tools/list lists the tools", "GET /tools lists the tools", "getTools lists the tools", "ListTools lists the tools", "GET /tools lists the tools"},
	fault.UnknownPrompt:      {"prompts/list lists the prompts", "GET /prompts lists the prompts", "getPrompts lists the prompts", "ListPrompts lists the prompts", "GET /prompts lists the prompts"},
	fault.UnknownResource:    {"resources/list lists the resources, resources/templates/list their templates", "GET /resources lists the resources", "getResources lists the resources", "ListResources lists the resources", "GET /resources lists the resources"},
	fault.UnknownTask:        {MCP: "tools/call begins another task"},
	fault.UnknownToolset:     {"tools/list without a toolset lists every tool that you may call", "GET /tools lists every tool that you may call", "getTools at /graphql lists every tool that you may call", "ListTools without a toolset lists every tool that you may call", "GET /tools lists every tool that you may call"},
	fault.HeaderMismatch:     {MCP: "say the same in the headers as in the body: MCP-Protocol-Version, Mcp-Method, Mcp-Name"},
	fault.UnsupportedVersion: {MCP: "send initialize with a version of data.supported"},
	fault.MissingCapability:  everywhere("declare what data.requiredCapabilities has, if you can do it", overMCP),
	fault.Unauthenticated: {
		"send the header Authorization, of the scheme that WWW-Authenticate names", "send the header Authorization, of the scheme that WWW-Authenticate names",
		"send the header Authorization, of the scheme that WWW-Authenticate names", "send the metadata key authorization, of the scheme that www-authenticate names",
		"connect with the header Authorization, of the scheme that WWW-Authenticate names",
	},
	fault.Forbidden: everywhere("", mayDo),
	fault.ApprovalRequired: {
		"", `POST /approvals/{approval} with {"approve":true} lets it run`, "approve lets it run", "Approve lets it run", "approval_response lets it run",
	},
	fault.UnknownApproval: {"", "GET /approvals lists what waits for you", "getApprovals lists what waits for you", "ListApprovals lists what waits for you", "GET /approvals lists what waits for you"},
	fault.InputRequired: {
		"", `POST /elicitations/{elicitation} with {"responses":{…}} answers`, "answerElicitation answers", "AnswerElicitation answers", "elicitation_response answers",
	},
	fault.UnknownElicitation: {"", "GET /elicitations lists what your calls ask", "getElicitations lists what your calls ask", "ListElicitations lists what your calls ask", "GET /elicitations lists what your calls ask"},
	fault.RateLimited:        everywhere("", comeBack+"; GET /access/limits says what is left"),
	fault.Overloaded:         everywhere("", comeBack),
	fault.Unavailable:        everywhere("", comeBack+"; GET /readyz says what is away"),
	fault.DeadlineExceeded:   repeat,
	fault.PeerLost:           repeat,
	fault.Cancelled:          repeat,
	fault.HistoryLost:        repeat,
	fault.ResultTooLarge:     everywhere("", shorter),
	fault.Internal:           everywhere(report, report),
}

// repeat is the advice if it is unknown whether the call ran. If it is known that it did
// not run, the advice is unbegun.
var repeat = Way{
	unsure + "_meta has io.github.busbar-mcp/idempotencyKey", unsure + "the header Idempotency-Key", unsure + "idempotency_key of its input", unsure + "idempotency_key", unsure + "idempotency_key of its data",
}
