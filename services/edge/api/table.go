package api

import (
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Operations are all operations of the doors besides MCP, in the order of the reference. A
// new operation is an entry here. Its field of GraphQL and its method of gRPC each need a
// line in their doors too, because the library reads Go types and protoc writes them.
//
// openapi.json, schema.graphql and docs/reference/doors.md follow from the table: make gen.
var Operations = []*Operation{
	{
		Name: "listTools", Does: "List tools", Method: mcp.MethodToolsList, Pages: true,
		HTTP:    HTTP{Path: "GET /tools", Tagged: true, Gives: "Tools by name", As: listOf("tools", ref("Tool"))},
		GraphQL: []Field{{"Query", "getTools: [Tool!]!", "All tools."}}, GRPC: "ListTools", Command: "busbar tools",
		Run: run((*Server).Tools),
	},
	{
		Name: "getTool", Does: "Describe a tool", Method: mcp.MethodToolsList,
		HTTP:    HTTP{Path: "GET /tools/{name}", Gives: "The tool", As: ref("Tool")},
		GraphQL: []Field{{"Query", "getTool(name: String!): Tool", ""}}, Command: "busbar tools NAME",
		Run: run((*Server).FindTool),
	},
	{
		Name: "callTool", Does: "Call a tool", Method: mcp.MethodToolsCall, Streams: true, Waits: true,
		HTTP: HTTP{Path: "POST /tools/{name}", Keyed: true, Optional: true, Takes: object, Gives: "The tool's result", As: ref("ToolResult")},
		GraphQL: []Field{
			{"Mutation", "executeTool(input: ToolInput!): ToolResult", "Calls a tool."},
			{"Subscription", "executeTool(input: ToolInput!): ToolEvent!", "Calls a tool and tells of its progress and logs; the last event has the result."},
		},
		GRPC: "CallTool", Message: Message{"tool_request", "tool_response", "an object with name and parameters"}, Command: "busbar call",
		Run: run((*Server).CallTool),
	},
	{
		Name: "batchTools", Does: "Call many tools concurrently", Method: mcp.MethodToolsCall,
		HTTP: HTTP{
			Path:  "POST /tools:batch",
			More:  "As application/json the answer has all slots in the order of the calls. With Accept: application/x-ndjson each slot comes on a line when it is done, and calls may be sent as lines too.",
			Takes: batchBody, Gives: "A slot for each call; one that failed fails alone", As: listed("results", ref("Slot")),
			TakesLine: ref("BatchCall"), AsLine: ref("Slot"),
		},
		GraphQL: []Field{{"Mutation", "executeTools(inputs: [ToolInput!]!, parallel: Int): [ToolSlot!]!",
			"Calls many tools concurrently. Each has its slot, in the order of the inputs, and one that fails fails alone."}},
		GRPC: "BatchTools", Message: Message{"batch_request", "batch_response", "an object with calls, an array, and optionally parallel, a number"}, Command: "busbar batch",
	},
	{
		Name: "listPrompts", Does: "List prompts", Method: mcp.MethodPromptsList, Pages: true,
		HTTP:    HTTP{Path: "GET /prompts", Gives: "Prompts by name", As: listOf("prompts", object)},
		GraphQL: []Field{{"Query", "getPrompts: [Prompt!]!", ""}}, GRPC: "ListPrompts", Command: "busbar prompts",
		Run: run((*Server).Prompts),
	},
	{
		Name: "getPrompt", Does: "Describe a prompt", Method: mcp.MethodPromptsList,
		HTTP:    HTTP{Path: "GET /prompts/{name}", Gives: "The prompt", As: object},
		GraphQL: []Field{{"Query", "getPrompt(name: String!): Prompt", ""}},
		Run:     run((*Server).FindPrompt),
	},
	{
		Name: "runPrompt", Does: "Fill a prompt in", Method: mcp.MethodPromptsGet, Streams: true, Waits: true,
		HTTP:    HTTP{Path: "POST /prompts/{name}", Optional: true, Takes: texts, Gives: "Messages", As: promptResult},
		GraphQL: []Field{{"Mutation", "executePrompt(input: PromptInput!): PromptResult", "Fills a prompt in."}}, GRPC: "GetPrompt",
		Message: Message{"prompt_request", "prompt_response", "an object with name and arguments"}, Command: "busbar prompts NAME",
		Run: run((*Server).FillPrompt),
	},
	{
		Name: "listResources", Does: "List resources, or read one", Method: mcp.MethodResourcesList, Pages: true,
		HTTP: HTTP{
			Path: "GET /resources", Gives: "Resources, or the contents of one", As: `{"oneOf":[` + listOf("resources", object) + `,` + ref("Contents") + `]}`,
			Also: `{"name":"uri","in":"query","schema":{"type":"string"},"description":"Read this resource instead of listing."}`,
		},
		GraphQL: []Field{{"Query", "getResources: [Resource!]!", "All resources that are listed; templates know more."}}, GRPC: "ListResources", Command: "busbar resources",
		Run: run((*Server).Resources),
	},
	{
		Name: "createResource", Does: "Create a resource", Method: mcp.MethodToolsCall,
		HTTP:    HTTP{Path: "POST /resources", Keyed: true, Takes: ref("ResourceInput"), Made: "Its metadata", As: object},
		GraphQL: []Field{{"Mutation", "createResource(input: ResourceInput!): Resource", ""}},
		Run:     run((*Server).CreateResource),
	},
	{
		Name: "readResource", Does: "Read a resource", Method: mcp.MethodResourcesRead,
		HTTP:    HTTP{Path: "GET /resources/{uri}", Gives: "Its contents", As: ref("Contents")},
		GraphQL: []Field{{"Query", "getResource(uri: String!): ReadResource", "A resource with its contents, which are read."}}, GRPC: "ReadResource",
		Message: Message{"resource_request", "resource_response", "an object with uri"}, Command: "busbar read",
		Run: run((*Server).ReadResource),
	},
	{
		Name: "putResource", Does: "Change a resource, or create it", Method: mcp.MethodToolsCall,
		HTTP: HTTP{Path: "PUT /resources/{uri}", Takes: ref("ResourceInput"), Gives: "Changed", Made: "Created", As: object},
		Run:  run((*Server).PutResource),
	},
	{
		Name: "patchResource", Does: "Change what is given of a resource", Method: mcp.MethodToolsCall,
		HTTP: HTTP{Path: "PATCH /resources/{uri}", Takes: ref("ResourceInput"), Gives: "Changed", As: object},
		Run:  run((*Server).PatchResource),
	},
	{
		Name: "deleteResource", Does: "Delete a resource", Method: mcp.MethodToolsCall,
		HTTP: HTTP{Path: "DELETE /resources/{uri}", Gives: "Deleted"},
		Run:  run((*Server).DeleteResource),
	},
	{
		Name: "watch", Does: "Hear of changes to lists and resources", Method: gateway.MethodStream,
		GraphQL: []Field{{"Subscription", "resourceUpdated(uri: String!): ResourceUpdate!", "Tells of each update of a resource."}}, GRPC: "Watch",
	},
	{
		Name: "sample", Does: "Ask the configured model, or the model of a connected MCP client", Method: mcp.MethodSample,
		HTTP:    HTTP{Path: "POST /sampling", Takes: samplingBody, Gives: "The model's message", As: samplingResult},
		Message: Message{"sampling_request", "sampling_response", ""},
		Run:     run((*Server).Sample),
	},
	{
		Name: "listApprovals", Does: "List your calls that are held", Method: gateway.MethodApprovalsList,
		HTTP: HTTP{
			Path: "GET /approvals", More: "The oldest first, at most 1,000, without their parameters.",
			Gives: "The held calls", As: listed("approvals", ref("Held")),
		},
		GraphQL: []Field{{"Query", "getApprovals: [Approval!]!", "Calls that wait for a person to agree to them, the oldest first."}}, GRPC: "ListApprovals", Command: "busbar approve",
		Run: run((*Server).Approvals),
	},
	{
		Name: "getApproval", Does: "Say what a held call is", Method: gateway.MethodApprovalsGet,
		HTTP:    HTTP{Path: "GET /approvals/{id}", Gives: "The held call", As: ref("Held")},
		GraphQL: []Field{{"Query", "getApproval(id: String!): Approval", ""}}, GRPC: "GetApproval", Command: "busbar approve ID",
		Run: run((*Server).FindApproval),
	},
	{
		Name: "approve", Does: "Agree to a held call, or refuse it", Method: mcp.MethodToolsCall, Waits: true,
		HTTP:    HTTP{Path: "POST /approvals/{id}", Takes: decision, Gives: "The call's result", As: ref("ToolResult")},
		GraphQL: []Field{{"Mutation", "approve(id: String!, approve: Boolean!): ToolResult", "Agrees to a call that is held, and gives its result, or refuses it for good."}}, GRPC: "Approve",
		Message: Message{"approval_response", "tool_response", "an object with approval, an id, and approve, true or false"}, Command: "busbar approve ID",
		Run: run((*Server).Approve),
	},
	{
		Name: "listElicitations", Does: "List what your calls ask you", Method: gateway.MethodElicitationsList,
		HTTP: HTTP{
			Path: "GET /elicitations", More: "The oldest first, at most 1,000, without their requests.",
			Gives: "The calls that ask", As: listed("elicitations", ref("Elicitation")),
		},
		GraphQL: []Field{{"Query", "getElicitations: [Elicitation!]!", "Calls of the caller whose tools ask it something, the oldest first."}}, GRPC: "ListElicitations",
		Run: run((*Server).Elicitations),
	},
	{
		Name: "getElicitation", Does: "Say what a call asks", Method: gateway.MethodElicitationsGet,
		HTTP:    HTTP{Path: "GET /elicitations/{id}", Gives: "Its questions", As: ref("Elicitation")},
		GraphQL: []Field{{"Query", "getElicitation(id: String!): Elicitation", ""}}, GRPC: "GetElicitation",
		Run: run((*Server).FindElicitation),
	},
	{
		Name: "answerElicitation", Does: "Answer what a call asks, which goes on then", Method: mcp.MethodToolsCall, Waits: true,
		HTTP:    HTTP{Path: "POST /elicitations/{id}", Takes: ref("Responses"), Gives: "The call's result", As: ref("ToolResult")},
		GraphQL: []Field{{"Mutation", "answerElicitation(id: String!, responses: JSON!): ToolResult", "Answers what the tool of a call asked, by the keys of its requests, and gives the call's result."}},
		GRPC:    "AnswerElicitation", Message: Message{"elicitation_response", "tool_response", "an object with elicitation, an id, and responses, an object"},
		Run: run((*Server).Answer),
	},
	{
		Name: "whoAmI", Does: "Say who makes the request", Method: gateway.MethodMe,
		HTTP:    HTTP{Path: "GET /access", Gives: "The caller, and its roles", As: identitySchema},
		Command: "busbar access who",
		Run:     run((*Server).Me),
	},
}
