package mcp

import "strings"

// Methods of both eras.
const (
	MethodInitialize       = "initialize"
	MethodPing             = "ping"
	MethodDiscover         = "server/discover"
	MethodListen           = "subscriptions/listen"
	MethodToolsList        = "tools/list"
	MethodToolsCall        = "tools/call"
	MethodResourcesList    = "resources/list"
	MethodTemplatesList    = "resources/templates/list"
	MethodResourcesRead    = "resources/read"
	MethodSubscribe        = "resources/subscribe"
	MethodUnsubscribe      = "resources/unsubscribe"
	NotifyResourceUpdated  = "notifications/resources/updated"
	MethodDirectoryRead    = "resources/directory/read"
	MethodSkillsList       = "skills/list"
	MethodSkillsGet        = "skills/get"
	MethodPromptsList      = "prompts/list"
	MethodPromptsGet       = "prompts/get"
	MethodComplete         = "completion/complete"
	MethodSetLevel         = "logging/setLevel"
	MethodTasksGet         = "tasks/get"
	MethodTasksUpdate      = "tasks/update"
	MethodTasksCancel      = "tasks/cancel"
	MethodElicit           = "elicitation/create"
	MethodSample           = "sampling/createMessage"
	MethodRoots            = "roots/list"
	NotifyInitialized      = "notifications/initialized"
	NotifyCancelled        = "notifications/cancelled"
	NotifyProgress         = "notifications/progress"
	NotifyMessage          = "notifications/message"
	NotifyAcknowledged     = "notifications/subscriptions/acknowledged"
	NotifyToolsChanged     = "notifications/tools/list_changed"
	NotifyTask             = "notifications/tasks"
	NotifyPromptsChanged   = "notifications/prompts/list_changed"
	NotifyResourcesChanged = "notifications/resources/list_changed"
	notificationPrefix     = "notifications/"
)

// methods saves an allocation per message for the methods of the call path.
var methods = func() map[string]string {
	m := map[string]string{}
	for _, s := range []string{
		MethodInitialize, MethodPing, MethodDiscover, MethodListen, MethodToolsList, MethodToolsCall,
		MethodResourcesList, MethodTemplatesList, MethodResourcesRead, MethodPromptsList, MethodPromptsGet,
		MethodComplete, MethodTasksGet, MethodTasksUpdate, MethodTasksCancel, MethodSetLevel, NotifyInitialized, NotifyCancelled,
	} {
		m[s] = s
	}
	return m
}()

// IsMethod reports whether a method is one that clients call here.
func IsMethod(method string) bool { return methods[method] != "" }

// IsNotification reports whether the method is that of a notification.
func IsNotification(method string) bool { return strings.HasPrefix(method, notificationPrefix) }

// Keys of _meta that the specification reserves (2026-07-28, basic, _meta).
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaProgressToken      = "progressToken"
	MetaTraceparent        = "traceparent"
	MetaTracestate         = "tracestate"
	// MetaIdempotencyKey is Busbar's own: a repeated call with the same key has
	// one effect and one answer.
	MetaIdempotencyKey = "io.github.busbar-mcp/idempotencyKey"
)

// JSON-RPC and MCP error codes.
const (
	CodeParseError         = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeLegacyServerError  = -32000
	CodeLegacyNoResource   = -32002
	CodeHeaderMismatch     = -32020
	CodeMissingCapability  = -32021
	CodeUnsupportedVersion = -32022
	// Busbar's own codes lie outside the range JSON-RPC reserves.
	CodeApprovalRequired = 1202
	CodeUnauthenticated  = 1401
	CodeForbidden        = 1403
	CodeConflict         = 1409
	CodeHistoryLost      = 1410
	CodeTooLarge         = 1413
	CodeRateLimited      = 1429
	CodeCancelled        = 1499
	CodeUnavailable      = 1503
	CodeDeadline         = 1504
)

// LogLevels of MCP logging (RFC 5424), least severe first.
var LogLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}
