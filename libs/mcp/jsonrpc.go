package mcp

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// seen marks the top-level members of a message.
type seen struct{ jsonrpc, id, method, params, result, err bool }

// classify applies JSON-RPC 2.0 to the members found, and MCP's stricter rules for ids
// and methods.
func (s *scanner) classify() error {
	m, has := s.m, s.seen
	invalid := func(format string, args ...any) error {
		return fault.New(fault.InvalidRequest, format, args...)
	}
	if s.idErr != nil {
		return s.idErr
	}
	switch {
	case s.typeErr != nil && s.typeErr.Reason == fault.InvalidRequest:
		return s.typeErr
	case !has.jsonrpc:
		return invalid(`member "jsonrpc" is missing; it must be "2.0"`)
	case has.method && (has.result || has.err):
		return invalid(`a message has either "method" or a result, not both`)
	case has.result && has.err:
		return invalid(`a response has either "result" or "error", not both`)
	case has.result || has.err:
		if has.params {
			return invalid(`a response has no "params"`)
		}
		if !has.id && has.result {
			return invalid(`a response needs an "id"`)
		}
		m.Kind = Response
		return nil
	case !has.method:
		return invalid(`member "method" is missing`)
	case has.id && IsNotification(m.Method):
		return invalid("%s is a notification and has no id", fault.Clip(m.Method))
	case !has.id && !IsNotification(m.Method):
		return invalid("%s is a request and needs an id", fault.Clip(m.Method))
	}
	m.Kind = Request
	if !has.id {
		m.Kind = Notification
	}
	if s.typeErr != nil {
		return s.typeErr
	}
	return nil
}

// set stores one finished member. where says which object contains it.
func (s *scanner) set(where place, key, v []byte) {
	switch where {
	case inMessage:
		s.setTop(key, v)
	case inParams:
		s.setParam(key, v)
	case inMeta:
		s.setMeta(key, v)
	}
}

func (s *scanner) setTop(key, v []byte) {
	m := s.m
	switch string(key) {
	case "jsonrpc":
		s.seen.jsonrpc = true
		if string(v) != `"2.0"` {
			s.wrong(fault.InvalidRequest, `member "jsonrpc" must be "2.0"`)
		}
	case "id":
		s.seen.id = true
		if err := checkID(v, s.lim); err != nil {
			s.idErr = err
			return
		}
		m.ID = v
	case "method":
		s.seen.method = true
		if v[0] != '"' {
			s.wrong(fault.InvalidRequest, `member "method" must be a string`)
			return
		}
		name := unquote(v)
		if known, ok := methods[string(name)]; ok {
			m.Method = known
		} else {
			m.Method = string(name)
		}
	case "params":
		s.seen.params = true
		if v[0] != '{' {
			s.wrong(fault.InvalidParams, `member "params" must be an object`)
			return
		}
		m.Params = v
	case "result":
		s.seen.result = true
		m.Result = v
	case "error":
		s.seen.err = true
		m.Error = v
	}
}

func (s *scanner) setParam(key, v []byte) {
	p := &s.m.P
	switch string(key) {
	case "name":
		p.Name = s.str("params.name", v)
	case "uri":
		p.URI = s.str("params.uri", v)
	case "cursor":
		if v[0] != '"' {
			s.wrong(fault.InvalidParams, "params.cursor must be a string")
			return
		}
		p.Cursor = append([]byte{}, unquote(v)...)
	case "arguments":
		p.Arguments = s.obj("params.arguments", v)
	case "_meta":
		p.Meta = s.obj("params._meta", v)
	case "protocolVersion":
		p.InitVersion = s.str("params.protocolVersion", v)
	case "clientInfo":
		p.InitInfo = s.obj("params.clientInfo", v)
	case "capabilities":
		p.InitCapabilities = s.obj("params.capabilities", v)
	case "inputResponses":
		p.InputResponses = s.obj("params.inputResponses", v)
	case "requestState":
		p.RequestState = []byte(s.str("params.requestState", v))
	case "requestId":
		p.RequestID = v
	case "reason":
		p.Reason = s.str("params.reason", v)
	case "level":
		p.Level = s.str("params.level", v)
	case "taskId":
		p.TaskID = s.str("params.taskId", v)
	case "notifications":
		p.Notifications = s.obj("params.notifications", v)
	}
}

func (s *scanner) setMeta(key, v []byte) {
	p := &s.m.P
	const at = "params._meta."
	switch string(key) {
	case MetaProtocolVersion:
		p.ProtocolVersion = s.str(at+MetaProtocolVersion, v)
	case MetaClientInfo:
		p.ClientInfo = s.obj(at+MetaClientInfo, v)
	case MetaClientCapabilities:
		p.ClientCapabilities = s.obj(at+MetaClientCapabilities, v)
	case MetaLogLevel:
		p.LogLevel = s.str(at+MetaLogLevel, v)
	case MetaProgressToken:
		if v[0] != '"' && !isInteger(v) {
			s.wrong(fault.InvalidParams, at+"progressToken must be a string or an integer")
			return
		}
		p.ProgressToken = v
	case MetaTraceparent:
		p.Traceparent = s.str(at+MetaTraceparent, v)
	case MetaTracestate:
		p.Tracestate = s.str(at+MetaTracestate, v)
	case MetaIdempotencyKey:
		p.IdempotencyKey = s.str(at+MetaIdempotencyKey, v)
		if v[0] == '"' && CheckIdempotencyKey(p.IdempotencyKey) != nil {
			s.wrong(fault.InvalidRequest, badKey().Message)
		}
	default:
		if !bytes.HasPrefix(key, reservedMeta) {
			p.OtherMeta = appendMember(p.OtherMeta, key, v)
		}
	}
}

var reservedMeta = []byte("io.modelcontextprotocol/")

// appendMember adds a member to an object; nil means an empty object.
func appendMember(object, key, v []byte) []byte {
	if object == nil {
		object = append(make([]byte, 0, len(key)+len(v)+5), '{')
	} else {
		object[len(object)-1] = ','
	}
	object, _ = jsontext.AppendQuote(object, key) // the key was read, so it is valid UTF-8
	return append(append(append(object, ':'), v...), '}')
}

// str and obj check a member's type. The first mistake is reported only after the whole
// message has been read, so that the answer can carry the id.
func (s *scanner) str(path string, v []byte) string {
	if v[0] != '"' {
		s.wrong(fault.InvalidParams, path+" must be a string")
		return ""
	}
	return string(unquote(v))
}

func (s *scanner) obj(path string, v []byte) []byte {
	if v[0] != '{' {
		s.wrong(fault.InvalidParams, path+" must be an object")
		return nil
	}
	return v
}

func (s *scanner) wrong(reason fault.Reason, message string) {
	if s.typeErr == nil || (s.typeErr.Reason != fault.InvalidRequest && reason == fault.InvalidRequest) {
		s.typeErr = fault.New(reason, "%s", message)
	}
}

// checkID allows a string or an integer that a double represents exactly. MCP forbids
// null, and an id that a client could read back as another id is worse than a
// refusal.
func checkID(v []byte, lim Limits) error {
	switch {
	case v[0] == '"' && len(v)-2 > lim.IDBytes:
		return fault.New(fault.InvalidRequest, "id is longer than %d bytes", lim.IDBytes)
	case v[0] == '"':
		return nil
	case !isInteger(v):
		return fault.New(fault.InvalidRequest, "id must be a string or an integer")
	}
	digits := bytes.TrimPrefix(v, []byte("-"))
	const limit = "9007199254740991" // 2^53 - 1
	if len(digits) > len(limit) || len(digits) == len(limit) && string(digits) > limit {
		return fault.New(fault.InvalidRequest, "id must be an integer within 2^53 - 1")
	}
	return nil
}

func isInteger(v []byte) bool {
	if len(v) == 0 || v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return false
	}
	return !bytes.ContainsAny(v, ".eE") && string(v) != "-0"
}
