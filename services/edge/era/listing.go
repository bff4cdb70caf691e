package era

import (
	"bytes"
	"context"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// private are the hints on a list that depends on who asks.
const private = `"ttlMs":5000,"cacheScope":"private"`

// listResources answers resources/list where services list some themselves.
func (s *Server) listResources(ctx context.Context, r *Request, x Exchange) {
	ctx, release := s.hold(ctx)
	defer release()
	entries, next, err := s.gateway.ListResources(ctx, &gateway.Call{
		Door: r.Door, Credentials: r.Credentials, Traceparent: r.Message.P.Traceparent, Tracestate: r.Message.P.Tracestate,
	}, r.Message.P.Cursor, 0)
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	body := append([]byte(`{"resources":[`), bytes.Join(entries, []byte{','})...)
	body = append(body, ']')
	if next != "" {
		body = appendQuoted(append(body, `,"nextCursor":`...), next)
	}
	s.result(r, x, complete, append(body, '}'), nil, private)
}
