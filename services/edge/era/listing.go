package era

import (
	"context"
	"strconv"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// listTime bounds one page of resources, however many services are asked.
const listTime = 10 * time.Second

// private are the hints on a list that depends on who asks.
const private = `"ttlMs":5000,"cacheScope":"private"`

// listResources answers resources/list where services list some themselves.
// Asking one is a call like others.
func (s *Server) listResources(ctx context.Context, r *Request, x Exchange, now *catalogue.Snapshot) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	page, err := now.ListResources(ctx, r.Message.P.Cursor, func(ctx context.Context, service, cursor string, limit int) ([]byte, error) {
		arguments := strconv.AppendInt([]byte(`{"limit":`), int64(limit), 10)
		if cursor != "" {
			arguments = appendQuoted(append(arguments, `,"cursor":`...), cursor)
		}
		answer, err := s.gateway.Do(ctx, &gateway.Call{
			Door: r.Door, Method: mcp.MethodResourcesList, Name: service, Arguments: append(arguments, '}'),
			Credentials: r.Credentials, Traceparent: r.Message.P.Traceparent, Tracestate: r.Message.P.Tracestate,
		}, nil)
		if err != nil {
			return nil, err
		}
		if answer.Result == nil {
			return nil, fault.New(fault.Internal, "service %s did not list its resources", service)
		}
		return answer.Result.Json, nil
	})
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	s.result(r, x, complete, append(append(append(make([]byte, 0, len(page)+2), '{'), page...), '}'), nil, private)
}
