package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/test/caller"
)

// client makes calls over one connection, or over one of its own for each call.
type client interface {
	Call(context.Context, caller.Call) caller.Answer
	Close()
}

// door is a format in which calls are made.
type door struct {
	name string
	open func(ctx context.Context, l *Load, edge string) (client, error)
	// keyless: its requests cannot carry an idempotency key.
	keyless bool
	// A connection costs a process, so it carries more calls.
	costly bool
}

// doors are the three formats of every load, and then the formats that a broad load has as well.
var doors = []door{
	{name: "modern", open: stateless(caller.Modern)},
	{name: "legacy", open: func(ctx context.Context, _ *Load, edge string) (client, error) { return caller.OpenSession(ctx, edge) }},
	{name: "rest", open: stateless(caller.REST)},
	{name: "sse", open: openSSE},
	{name: "mcp over /ws", open: openMCPSocket},
	{name: "/ws", open: openSocket},
	{name: "graphql", open: stateless(graphQL)},
	{name: "/v1", open: stateless(envelope), keyless: true},
	{name: "grpc", open: openGRPC},
	{name: "stdio", open: openStdio, costly: true},
}

// everywhere is how many of doors every load has.
const everywhere = 3

// Doors are the names of the formats of a broad load.
func Doors() (names []string) {
	for _, d := range doors {
		names = append(names, d.name)
	}
	return names
}

// door picks a format.
func (w *worker) door() door {
	if w.Broad {
		return doors[w.IntN(len(doors))]
	}
	return doors[w.IntN(everywhere)]
}

// through makes a call over the worker's connection to the edge, and opens that first if needed.
func (w *worker) through(ctx context.Context, d door, edge string, what caller.Call) caller.Answer {
	if w.line != nil && w.lineEdge != edge {
		w.hangUp()
	}
	if w.line == nil {
		c, err := d.open(ctx, w.Load, edge)
		if err != nil {
			return caller.Unsent(err)
		}
		w.line, w.lineEdge, w.lineTurn = c, edge, w.turn
	}
	a := w.line.Call(ctx, what)
	if slices.Contains([]string{"connection", "unreadable", "session"}, a.Reason) {
		w.hangUp()
	}
	return a
}

func (w *worker) hangUp() {
	if w.line != nil {
		w.line.Close()
	}
	w.line = nil
}

// request is a client without a connection of its own.
type request struct {
	edge string
	do   func(context.Context, string, caller.Call) caller.Answer
}

func (r request) Call(ctx context.Context, c caller.Call) caller.Answer { return r.do(ctx, r.edge, c) }
func (request) Close()                                                  {}

func stateless(do func(context.Context, string, caller.Call) caller.Answer) func(context.Context, *Load, string) (client, error) {
	return func(_ context.Context, _ *Load, edge string) (client, error) { return request{edge, do}, nil }
}

func graphQL(ctx context.Context, edge string, c caller.Call) caller.Answer {
	const document = `mutation($n:String!,$p:JSON,$k:String){done:executeTool(input:{name:$n,parameters:$p,idempotency_key:$k}){content{text} structured_content is_error}}`
	key := "null"
	if c.Key != "" {
		key = caller.Quoted(c.Key)
	}
	_, body, err := caller.Post(ctx, edge, "/graphql", fmt.Sprintf(`{"query":%s,"variables":{"n":%s,"p":%s,"k":%s}}`, caller.Quoted(document), caller.Quoted(c.Tool), c.Arguments, key))
	if err != nil {
		return caller.Broken(err)
	}
	var r struct {
		Data struct {
			Done jsontext.Value `json:"done"`
		} `json:"data"`
		Errors []struct {
			Extensions jsontext.Value `json:"extensions"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(body, &r); err == nil && len(r.Errors) > 0 {
		return caller.Refused(r.Errors[0].Extensions)
	}
	return caller.Result(r.Data.Done)
}

func envelope(ctx context.Context, edge string, c caller.Call) caller.Answer {
	resp, body, err := caller.Post(ctx, edge, "/v1", fmt.Sprintf(`{"version":"1.0","action":{"name":%s,"parameters":%s}}`, caller.Quoted(c.Tool), c.Arguments))
	if err != nil {
		return caller.Broken(err)
	}
	if resp.StatusCode != http.StatusOK {
		return caller.Answer{Reason: resp.Header.Get("Busbar-Reason"), Executed: resp.Header.Get("Busbar-Executed"), Detail: string(body)}
	}
	var r struct {
		Status string         `json:"status"`
		Result jsontext.Value `json:"result"`
	}
	if err := json.Unmarshal(body, &r); err != nil || r.Status != "success" {
		return caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: string(body)}
	}
	return caller.Answer{OK: true, Text: string(r.Result)}
}

// grpcPort is the port of gRPC, at the address of an edge.
const grpcPort = "8001"

type grpcClient struct {
	conn *grpc.ClientConn
	api  gatewayv1.GatewayServiceClient
}

func openGRPC(_ context.Context, _ *Load, edge string) (client, error) {
	host, _, err := net.SplitHostPort(edge)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+net.JoinHostPort(host, grpcPort), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return grpcClient{conn, gatewayv1.NewGatewayServiceClient(conn)}, nil
}

func (g grpcClient) Close() { _ = g.conn.Close() }

func (g grpcClient) Call(ctx context.Context, c caller.Call) (a caller.Answer) {
	stream, err := g.api.CallTool(ctx, &gatewayv1.CallToolRequest{Name: c.Tool, Arguments: []byte(c.Arguments), IdempotencyKey: c.Key})
	for err == nil {
		var m *gatewayv1.CallToolResponse
		if m, err = stream.Recv(); err == nil && m.GetResult() != nil {
			a = caller.Answer{OK: !m.GetResult().IsError, Text: string(m.GetResult().StructuredContent)}
		}
	}
	if errors.Is(err, io.EOF) {
		return a
	}
	s, _ := rpcstatus.FromError(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return caller.Answer{Reason: info.Reason, Executed: info.Metadata["executed"], Approval: info.Metadata["approval"], Detail: s.Message()}
		}
	}
	a = caller.Broken(err) // a status that is not Busbar's comes from the connection
	if s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connect:") {
		a.Executed = "no"
	}
	return a
}
