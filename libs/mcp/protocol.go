// Package mcp holds the facts of the Model Context Protocol: its versions, methods, error codes and types,
// and the strict reader of its JSON-RPC messages. It does no I/O and does not depend on the rest of
// Busbar. Start at protocol.go for the facts, and at Parse for the reader.
package mcp

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Protocol versions, newest last.
const (
	V20241105 = "2024-11-05"
	V20250326 = "2025-03-26"
	V20250618 = "2025-06-18"
	V20251125 = "2025-11-25"
	V20260728 = "2026-07-28"
)

// Modern is the version of the stateless era that Busbar speaks.
const Modern = V20260728

// LegacyLatest is the version offered to a legacy client that asks for an unknown
// version.
const LegacyLatest = V20251125

// v20241007 was the draft before the first version, and some clients still ask for it.
const v20241007 = "2024-10-07"

// Negotiated returns the version of a session for the version that its client asks for:
// the same one, if it is supported and has a handshake; the first version, if the client
// asks for the draft before it, because it may know no newer one; otherwise LegacyLatest.
// The client then decides whether it can use that version.
func Negotiated(asked string) string {
	switch {
	case IsLegacy(asked):
		return asked
	case asked == v20241007:
		return V20241105
	}
	return LegacyLatest
}

// supported is in order of preference. UnsupportedProtocolVersionError and
// server/discover list it in this order.
var supported = []string{V20260728, V20251125, V20250618, V20250326, V20241105}

// Supported returns every supported version, preferred first.
func Supported() []string { return slices.Clone(supported) }

// IsSupported reports whether v is supported, in either era.
func IsSupported(v string) bool { return slices.Contains(supported, v) }

// IsLegacy reports whether v belongs to the era of handshakes and sessions.
func IsLegacy(v string) bool { return v != Modern && slices.Contains(supported, v) }

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

// IsMethod reports whether clients can call a method here.
func IsMethod(method string) bool { return methods[method] != "" }

// IsNotification reports whether the method is a notification.
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
	// MetaResource is Busbar's own, in the result of resources/read: the resource's entry
	// in resources/list.
	MetaResource = "io.github.busbar-mcp/resource"
	// MetaFailure is Busbar's own, in the result of a failed tool: an object with the
	// reason (not_found, invalid_params, conflict, forbidden or unavailable), and optionally
	// parameter and retryAfterMs. If an edge refused the arguments, executed is
	// "no".
	MetaFailure = "io.github.busbar-mcp/failure"
	// MetaReplayed is Busbar's own, in a result since 2026-07-28: true if the result is the
	// answer to an earlier call with the same idempotency key.
	MetaReplayed = "io.github.busbar-mcp/replayed"
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
	CodeInputRequired    = 1203
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

// HTTP headers of the Streamable HTTP transport.
const (
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method"
	HeaderName            = "Mcp-Name"
	HeaderParamPrefix     = "Mcp-Param-"
	HeaderSessionID       = "Mcp-Session-Id"
)

const (
	sentinelPrefix = "=?base64?"
	sentinelSuffix = "?="
)

// DecodeHeader returns the value of an Mcp-Name or Mcp-Param header: the plain text, or
// the text inside the Base64 form. An error means that the value must be refused
// (2026-07-28, streamable-http, Value Encoding).
func DecodeHeader(v string) (string, error) {
	v = strings.Trim(v, " \t")
	if len(v) >= len(sentinelPrefix)+len(sentinelSuffix) && strings.HasPrefix(v, sentinelPrefix) && strings.HasSuffix(v, sentinelSuffix) {
		text, err := base64.StdEncoding.Strict().DecodeString(v[len(sentinelPrefix) : len(v)-len(sentinelSuffix)])
		if err != nil || strings.ContainsAny(v, "\r\n") {
			return "", errors.New("malformed Base64")
		}
		if !utf8.Valid(text) {
			return "", errors.New("not UTF-8")
		}
		return string(text), nil
	}
	if !isPlain(v) {
		return "", errors.New("invalid characters")
	}
	return v, nil
}

// EncodeHeader returns the form of a text for an Mcp-Name or Mcp-Param header.
// DecodeHeader reverses it.
func EncodeHeader(text string) string {
	looksEncoded := strings.HasPrefix(text, sentinelPrefix) && strings.HasSuffix(text, sentinelSuffix)
	if isPlain(text) && !looksEncoded && strings.Trim(text, " \t") == text {
		return text
	}
	return sentinelPrefix + base64.StdEncoding.EncodeToString([]byte(text)) + sentinelSuffix
}

func isPlain(v string) bool {
	for i := range len(v) {
		if c := v[i]; c != '\t' && (c < 0x20 || c > 0x7e) {
			return false
		}
	}
	return true
}

// ExtensionEnterprise says that tokens of an organization's identity provider are
// accepted: enterprise-managed authorization.
const ExtensionEnterprise = "io.modelcontextprotocol/enterprise-managed-authorization"

// ExtensionTasks is the tasks extension: calls that outlive their requests.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Declares reports whether a client's capabilities, as sent, contain an
// extension.
func Declares(capabilities []byte, extension string) bool {
	if len(capabilities) < len(extension) {
		return false // true for nearly all clients, and needs no parser
	}
	var c struct {
		Extensions map[string]jsontext.Value `json:"extensions,omitempty"`
		Rest       jsontext.Value            `json:",inline"`
	}
	return json.Unmarshal(capabilities, &c) == nil && c.Extensions[extension].Kind() == '{'
}

// Needs returns the data of the error that tells a client to declare an extension.
func Needs(extension string) []byte {
	return []byte(`{"requiredCapabilities":{"extensions":{"` + extension + `":{}}}}`)
}

// MaxIdempotencyKey is the longest idempotency key, in bytes.
//
//limit:message.bytes an idempotency key, in UTF-8 | `invalid_request`
const MaxIdempotencyKey = 255

// CheckIdempotencyKey checks a client's idempotency key. An empty one is a mistake, not a
// missing key. The error has reason InvalidRequest.
func CheckIdempotencyKey(key string) error {
	if key == "" || len(key) > MaxIdempotencyKey || !utf8.ValidString(key) {
		return badKey()
	}
	return nil
}

func badKey() *fault.Error {
	return fault.New(fault.InvalidRequest, "an idempotency key must be UTF-8 text of 1 to %d bytes", MaxIdempotencyKey)
}
