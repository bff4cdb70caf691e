// Package service is the door for services: a tool that calls other tools does so through
// an edge, as any client does. The calls are made on behalf of the tool's own caller, by
// the delegation that came with the request, and pass the same gateway (ADR 0013).
package service

import (
	"context"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// concurrency is how many calls of services one edge carries concurrently. They only wait
// here.
//
//limit:call concurrent calls that an edge carries for tools that call tools | `overloaded`
const concurrency = 1024

// Serve takes calls of services, sharing them with the other edges of the bus.
func Serve(ctx context.Context, conn *bus.Conn, g *gateway.Gateway) (*bus.Server, error) {
	return bus.ServeGateway(ctx, conn, bus.ServerConfig{
		Concurrency: concurrency,
		Handler: func(ctx context.Context, req *busv1.Request, out *bus.Responder) (proto.Message, error) {
			ctx, release := g.Track(ctx)
			defer release()
			return call(ctx, g, out.Sender(), req)
		},
	})
}

func call(ctx context.Context, g *gateway.Gateway, sender string, req *busv1.Request) (proto.Message, error) {
	if req.Method != mcp.MethodToolsCall {
		return nil, fault.New(fault.MethodNotFound, "services call tools only, not %s", fault.Clip(req.Method))
	}
	c := &gateway.Call{
		Door: "service", Method: req.Method, Name: req.Name, Arguments: req.Arguments,
		Delegation:     append([]byte{}, req.Delegation...), // never nil, whatever the request has
		Service:        sender,
		IdempotencyKey: req.IdempotencyKey, Traceparent: req.Traceparent, Tracestate: req.Tracestate,
	}
	answer, err := g.Do(ctx, c, nil)
	if _, err = api.Outcome(answer, err); err != nil {
		return nil, err
	}
	return answer.Result, nil
}
