package soak

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
)

// conversation is a client of MCP where the connection is the session.
type conversation struct {
	id   int
	meta string // of each request
	send func(context.Context, string) error
	next func(context.Context) ([]byte, error)
	end  func()
}

func (c *conversation) close() { c.end() }

func (c *conversation) call(ctx context.Context, what caller.Call) caller.Answer {
	c.id++
	meta := what.Meta()
	if c.meta != "" {
		meta = append(meta, c.meta)
	}
	if err := c.send(ctx, caller.MCP(c.id, mcp.MethodToolsCall, what.Params(), meta...)); err != nil {
		return caller.Broken(err)
	}
	for {
		b, err := c.next(ctx)
		if err != nil {
			return caller.Broken(err)
		}
		var m caller.Message
		if err := json.Unmarshal(b, &m); err != nil {
			return caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: string(b)}
		}
		if m.Method == "" && string(m.ID) == fmt.Sprint(c.id) {
			return m.Answer()
		}
	}
}

// introduce sends initialize and reads the answer.
func (c *conversation) introduce(ctx context.Context, version string) (client, error) {
	c.id = 1
	err := c.send(ctx, caller.Initialize(version))
	if err == nil {
		_, err = c.next(ctx)
	}
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func dialSocket(ctx context.Context, e *edge, protocol string) (*conversation, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+e.web+"/ws", &websocket.DialOptions{Subprotocols: []string{protocol}})
	if err != nil {
		return nil, err
	}
	conn.SetReadLimit(-1)
	return &conversation{
		send: func(ctx context.Context, s string) error { return conn.Write(ctx, websocket.MessageText, []byte(s)) },
		next: func(ctx context.Context) ([]byte, error) { _, b, err := conn.Read(ctx); return b, err },
		end:  func() { _ = conn.CloseNow() },
	}, nil
}

func openMCPSocket(ctx context.Context, _ *fleet, e *edge) (client, error) {
	c, err := dialSocket(ctx, e, "mcp")
	if err != nil {
		return nil, err
	}
	return c.introduce(ctx, mcp.V20250618)
}

func openSSE(ctx context.Context, _ *fleet, e *edge) (client, error) {
	// The stream outlives the call that opens it.
	live, cancel := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, cancel)
	r, err := http.NewRequestWithContext(live, http.MethodGet, "http://"+e.web+"/sse", nil)
	if err != nil {
		cancel()
		return nil, err
	}
	resp, err := caller.Web.Do(r)
	if err != nil {
		cancel()
		return nil, err
	}
	stop()
	lines := bufio.NewReader(resp.Body)
	next := func(ctx context.Context) ([]byte, error) {
		defer context.AfterFunc(ctx, cancel)()
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return nil, err
			}
			if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok {
				return bytes.TrimSpace(data), nil
			}
		}
	}
	c := &conversation{next: next, end: func() { cancel(); _ = resp.Body.Close() }}
	endpoint, err := next(ctx)
	if err != nil {
		c.end()
		return nil, err
	}
	c.send = func(ctx context.Context, s string) error {
		resp, b, err := caller.Post(ctx, e.web, string(endpoint), s)
		if err == nil && resp.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("posted: %d %.200s", resp.StatusCode, b)
		}
		return err
	}
	return c.introduce(ctx, mcp.V20241105)
}

// openStdio runs an edge of its own behind standard input and output.
func openStdio(_ context.Context, f *fleet, _ *edge) (client, error) {
	cmd := exec.Command(filepath.Join(filepath.Dir(f.edges[0].argv[0]), "busbar"), "stdio", "--nats", "nats://"+f.nats.argv[1],
		"--audit-spool", f.spool()) // what it cannot send at its end, an edge sends
	cmd.Env = f.edges[0].env
	diesWithUs(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	kill := func() { _ = cmd.Process.Kill() }
	return &conversation{
		meta: caller.Capable("{}"),
		send: func(_ context.Context, s string) error { _, err := io.WriteString(in, s+"\n"); return err },
		next: func(ctx context.Context) ([]byte, error) {
			defer context.AfterFunc(ctx, kill)()
			return lines.ReadBytes('\n')
		},
		end: func() {
			_ = in.Close()
			defer time.AfterFunc(20*time.Second, kill).Stop()
			_ = cmd.Wait()
		},
	}, nil
}

// socket is a client of the API of version 1.0.0 at /ws.
type socket struct{ *conversation }

func openSocket(ctx context.Context, _ *fleet, e *edge) (client, error) {
	c, err := dialSocket(ctx, e, "busbar")
	return socket{c}, err
}

func (s socket) call(ctx context.Context, c caller.Call) caller.Answer {
	data := fmt.Sprintf(`{"name":%s,"parameters":%s}`, caller.Quoted(c.Tool), c.Arguments)
	if c.Key != "" {
		data = strings.TrimSuffix(data, "}") + `,"idempotency_key":` + caller.Quoted(c.Key) + "}"
	}
	return s.ask(ctx, "tool_request", data)
}

func (s socket) ask(ctx context.Context, kind, data string) caller.Answer {
	s.id++
	if err := s.send(ctx, fmt.Sprintf(`{"type":%q,"id":%d,"data":%s}`, kind, s.id, data)); err != nil {
		return caller.Broken(err)
	}
	for {
		b, err := s.next(ctx)
		if err != nil {
			return caller.Broken(err)
		}
		var m struct {
			Type  string         `json:"type"`
			Data  jsontext.Value `json:"data"`
			Error struct {
				Data jsontext.Value `json:"data"`
			} `json:"error"`
		}
		switch err := json.Unmarshal(b, &m); {
		case err != nil:
			return caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: string(b)}
		case m.Type == "tool_response":
			return caller.Result(m.Data)
		case m.Type == "error":
			return caller.Refused(m.Error.Data)
		}
	}
}

// grpcClient is a connection of gRPC.
type grpcClient struct {
	conn *grpc.ClientConn
	api  gatewayv1.GatewayServiceClient
}

func openGRPC(_ context.Context, _ *fleet, e *edge) (client, error) {
	conn, err := grpc.NewClient("passthrough:///"+e.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	return grpcClient{conn, gatewayv1.NewGatewayServiceClient(conn)}, nil
}

func (g grpcClient) close() { _ = g.conn.Close() }

func (g grpcClient) call(ctx context.Context, c caller.Call) caller.Answer {
	stream, err := g.api.CallTool(ctx, &gatewayv1.CallToolRequest{Name: c.Tool, Arguments: []byte(c.Arguments), IdempotencyKey: c.Key})
	if err != nil {
		return ofStatus(err)
	}
	var a caller.Answer
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return a
		case err != nil:
			return ofStatus(err)
		case m.GetResult() != nil:
			r := m.GetResult()
			a = caller.Answer{OK: !r.IsError, Text: string(r.StructuredContent)}
		}
	}
}

// ofStatus reads a status; one that is not Busbar's comes from the connection.
func ofStatus(err error) caller.Answer {
	s, _ := rpcstatus.FromError(err)
	for _, d := range s.Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return caller.Answer{Reason: info.Reason, Executed: info.Metadata["executed"], Approval: info.Metadata["approval"], Detail: s.Message()}
		}
	}
	a := caller.Broken(err)
	if s.Code() == codes.Unavailable && strings.Contains(s.Message(), "connect:") {
		a.Executed = "no"
	}
	return a
}
