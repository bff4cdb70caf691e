package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/coder/websocket"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/test/bench/load"
)

// doors is the small call through each door of "busbar dev".
func (b *bench) doors(ctx context.Context) error {
	dev, err := b.dev("--grpc-listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mcp, err := b.enter(ctx, "MCP", dev, small.modern(dev))
	if err != nil {
		return err
	}
	sessions, err := small.legacy(dev, b.connections)
	if err != nil {
		return err
	}
	contenders := []*contender{mcp}
	add := func(c *contender, failed error) {
		contenders = append(contenders, c)
		if err == nil {
			err = failed
		}
	}
	add(b.enter(ctx, "MCP, legacy session", dev, sessions...))
	add(b.enter(ctx, "REST", dev, small.target(dev, request(dev.address, "", nil, "/tools/"+smallTool, []byte(smallArguments)))))
	query := fmt.Sprintf(`{"query":"mutation($p:JSON!){executeTool(input:{name:%s,parameters:$p}){structured_content is_error}}","variables":{"p":%s}}`, `\"`+smallTool+`\"`, smallArguments)
	add(b.enter(ctx, "GraphQL", dev, small.target(dev, request(dev.address, "", nil, "/graphql", []byte(query)))))
	add(b.enterAs(ctx, "WebSocket", dev, b.connections, func(int) (load.Caller, error) { return dialSocket(ctx, dev.address) }))
	add(b.enterAs(ctx, "gRPC", dev, b.connections, func(int) (load.Caller, error) { return dialGRPC(dev.processes[0].Ready["grpc"]) }))
	if err != nil {
		return err
	}
	if err := b.contest(ctx, "doors", contenders...); err != nil {
		return err
	}
	for _, c := range contenders[1:] {
		b.add(row{Group: "doors", What: "small call, " + c.name + ", of the same as MCP of 2026-07-28", Of: rates(c, mcp)})
	}
	return nil
}

const callTime = time.Minute

// socket calls over one WebSocket.
type socket struct {
	conn *websocket.Conn
}

func dialSocket(ctx context.Context, address string) (*socket, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+address+"/ws", nil)
	return &socket{conn}, err
}

func (s *socket) Close() { _ = s.conn.CloseNow() }

func (s *socket) Call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, []byte(`{"type":"tool_request","id":1,"data":{"name":"`+smallTool+`","parameters":`+smallArguments+`}}`)); err != nil {
		return err
	}
	_, answer, err := s.conn.Read(ctx)
	if err == nil && !(strings.Contains(string(answer), smallAnswer) && strings.Contains(string(answer), "tool_response")) {
		err = fmt.Errorf("wrong answer of the WebSocket: %.300s", answer)
	}
	return err
}

// remote calls over one connection of gRPC.
type remote struct {
	conn   *grpc.ClientConn
	client gatewayv1.GatewayServiceClient
}

func dialGRPC(address string) (*remote, error) {
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return &remote{conn, gatewayv1.NewGatewayServiceClient(conn)}, nil
}

func (r *remote) Close() { _ = r.conn.Close() }

func (r *remote) Call() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	stream, err := r.client.CallTool(ctx, &gatewayv1.CallToolRequest{Name: smallTool, Arguments: []byte(smallArguments)})
	if err != nil {
		return err
	}
	right := false
	for {
		m, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if result := m.GetResult(); result != nil {
			right = strings.Contains(string(result.GetStructuredContent()), smallAnswer)
		}
	}
	if !right {
		return fmt.Errorf("wrong answer of gRPC")
	}
	return nil
}
