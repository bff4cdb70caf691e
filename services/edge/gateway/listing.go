package gateway

import (
	"context"
	"strconv"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// listTime bounds one page of resources, however many services are asked.
const listTime = 10 * time.Second

// ListResources returns resources from a cursor on, with those that services
// list themselves; see catalogue.Snapshot.ListResources. Asking a service is a
// call like others, on behalf of who makes c: of c only the door, the
// credentials, the client and the trace count.
func (g *Gateway) ListResources(ctx context.Context, c *Call, cursor []byte, limit int) (entries [][]byte, next string, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	return g.cfg.Catalogue.Now().ListResources(ctx, cursor, limit, func(ctx context.Context, service, cursor string, limit int) ([]byte, error) {
		arguments := strconv.AppendInt([]byte(`{"limit":`), int64(limit), 10)
		if cursor != "" {
			arguments = append(append(arguments, `,"cursor":`...), quote(cursor)...)
		}
		answer, err := g.Do(ctx, &Call{
			Door: c.Door, Method: mcp.MethodResourcesList, Name: service, Arguments: append(arguments, '}'),
			Credentials: c.Credentials, Client: c.Client, Traceparent: c.Traceparent, Tracestate: c.Tracestate,
		}, nil)
		if err != nil {
			return nil, err
		}
		if answer.Result == nil {
			return nil, fault.New(fault.Internal, "service %s did not list its resources", service)
		}
		return answer.Result.Json, nil
	})
}
