package streamable

import (
	"net/http"
	"net/textproto"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// eraOf returns the protocol version of a message, from its header and body. The error,
// if any, is for a modern client.
func eraOf(h http.Header, m *mcp.Message) (version string, modern bool, err error) {
	headers := h[mcp.HeaderProtocolVersion]
	header, body := "", m.P.ProtocolVersion
	if len(headers) > 0 {
		header = strings.Trim(headers[0], " \t")
	}
	switch {
	case len(headers) > 1:
		return "", true, mismatch("header MCP-Protocol-Version appears twice")
	case header == "" && body == "":
		// 2025-03-26 had no such header, and initialize has none.
		return mcp.V20250326, false, nil
	case header == "" && m.Kind != mcp.Request:
		return body, body == mcp.Modern, nil
	case header == "":
		return "", true, mismatch("header MCP-Protocol-Version is missing")
	case body != "" && header != body:
		return "", true, mismatch("header MCP-Protocol-Version says %q, params._meta says %q", fault.Clip(header), fault.Clip(body))
	case mcp.IsLegacy(header):
		return header, false, nil
	case header != mcp.Modern:
		return "", true, protocol.UnsupportedVersion(header)
	}
	return header, true, nil
}

// checkHeaders requires that the headers that repeat parts of the body have the same
// values (2026-07-28, streamable-http, Server Validation).
func checkHeaders(h http.Header, m *mcp.Message, now *catalogue.Snapshot) error {
	if err := mirrors(h, mcp.HeaderMethod, m.Method, false); err != nil {
		return err
	}
	switch m.Method {
	case mcp.MethodToolsCall, mcp.MethodPromptsGet:
		if err := mirrors(h, mcp.HeaderName, m.P.Name, true); err != nil {
			return err
		}
	case mcp.MethodResourcesRead:
		if err := mirrors(h, mcp.HeaderName, m.P.URI, true); err != nil {
			return err
		}
	case mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel:
		if err := mirrors(h, mcp.HeaderName, m.P.TaskID, true); err != nil {
			return err
		}
	}
	if m.Method != mcp.MethodToolsCall {
		return nil
	}
	target, ok := now.Tool(m.P.Name)
	if !ok {
		return nil
	}
	for _, p := range target.Tool.Schema.Headers() {
		name := textproto.CanonicalMIMEHeaderKey(mcp.HeaderParamPrefix + p.Name)
		values := h[name]
		if len(values) > 1 {
			return mismatch("header %s appears twice", name)
		}
		value := ""
		if len(values) == 1 {
			var err error
			if value, err = mcp.DecodeHeader(values[0]); err != nil {
				return mismatch("header %s: %v", name, err)
			}
		}
		if err := p.Match(m.P.Arguments, len(values) == 1, value); err != nil {
			return mismatch("header %s: %v", name, err)
		}
	}
	return nil
}

func mirrors(h http.Header, name, body string, encoded bool) error {
	values := h[name]
	switch {
	case len(values) == 0:
		return mismatch("header %s is missing", name)
	case len(values) > 1:
		return mismatch("header %s appears twice", name)
	}
	value := strings.Trim(values[0], " \t")
	if encoded {
		var err error
		if value, err = mcp.DecodeHeader(value); err != nil {
			return mismatch("header %s: %v", name, err)
		}
	}
	if value != body {
		return mismatch("header %s says %q, the body says %q", name, fault.Clip(value), fault.Clip(body))
	}
	return nil
}

func mismatch(format string, args ...any) error {
	return fault.New(fault.HeaderMismatch, "Header mismatch: "+format, args...)
}
