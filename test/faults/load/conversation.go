package load

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/test/caller"
)

// conversation is a client of MCP whose connection is its session.
type conversation struct {
	id   int
	meta []string // of each request
	send func(context.Context, string) error
	next func(context.Context) ([]byte, error)
	end  func()
}

func (c *conversation) Close() { c.end() }

func (c *conversation) Call(ctx context.Context, what caller.Call) caller.Answer {
	c.id++
	return c.ask(ctx, caller.MCP(c.id, mcp.MethodToolsCall, what.Params(), append(what.Meta(), c.meta...)...), func(b []byte) (a caller.Answer, ours bool, err error) {
		var m caller.Message
		if err := json.Unmarshal(b, &m); err != nil || m.Method != "" || string(m.ID) != fmt.Sprint(c.id) {
			return a, false, err
		}
		return m.Answer(), true, nil
	})
}

// ask sends a message and reads until an answer to it comes.
func (c *conversation) ask(ctx context.Context, message string, read func([]byte) (a caller.Answer, ours bool, err error)) caller.Answer {
	if err := c.send(ctx, message); err != nil {
		return caller.Broken(err)
	}
	for {
		b, err := c.next(ctx)
		if err != nil {
			return caller.Broken(err)
		}
		switch a, ours, err := read(b); {
		case err != nil:
			return caller.Answer{Reason: "unreadable", Executed: "unknown", Detail: string(b)}
		case ours:
			return a
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

func dialSocket(ctx context.Context, edge, protocol string) (*conversation, error) {
	conn, _, err := websocket.Dial(ctx, "ws://"+edge+"/ws", &websocket.DialOptions{Subprotocols: []string{protocol}})
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

func openMCPSocket(ctx context.Context, _ *Load, edge string) (client, error) {
	c, err := dialSocket(ctx, edge, "mcp")
	if err != nil {
		return nil, err
	}
	return c.introduce(ctx, mcp.V20250618)
}

// socket is a client of the API of version 1.0.0 at /ws.
type socket struct{ *conversation }

func openSocket(ctx context.Context, _ *Load, edge string) (client, error) {
	c, err := dialSocket(ctx, edge, "busbar")
	return socket{c}, err
}

func (s socket) Call(ctx context.Context, c caller.Call) caller.Answer {
	key := ""
	if c.Key != "" {
		key = `,"idempotency_key":` + caller.Quoted(c.Key)
	}
	s.id++
	return s.ask(ctx, fmt.Sprintf(`{"type":"tool_request","id":%d,"data":{"name":%s,"parameters":%s%s}}`, s.id, caller.Quoted(c.Tool), c.Arguments, key), func(b []byte) (a caller.Answer, ours bool, err error) {
		var m struct {
			Type  string         `json:"type"`
			Data  jsontext.Value `json:"data"`
			Error struct {
				Data jsontext.Value `json:"data"`
			} `json:"error"`
		}
		switch err := json.Unmarshal(b, &m); {
		case err == nil && m.Type == "tool_response":
			return caller.Result(m.Data), true, nil
		case err == nil && m.Type == "error":
			return caller.Refused(m.Error.Data), true, nil
		default:
			return a, false, err
		}
	})
}

func openSSE(ctx context.Context, _ *Load, edge string) (client, error) {
	// The stream outlives the call that opens it.
	live, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	r, err := caller.New(live, http.MethodGet, edge, "/sse", "")
	var resp *http.Response
	if err == nil {
		resp, err = caller.Web.Do(r)
	}
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
		resp, b, err := caller.Post(ctx, edge, string(endpoint), s)
		if err == nil && resp.StatusCode != http.StatusAccepted {
			err = fmt.Errorf("posted: %d %.200s", resp.StatusCode, b)
		}
		return err
	}
	return c.introduce(ctx, mcp.V20241105)
}

// openStdio runs an edge of its own behind standard input and output.
func openStdio(_ context.Context, l *Load, _ string) (client, error) {
	cmd := exec.Command(l.Stdio[0], l.Stdio[1:]...)
	cmd.Env = []string{"HOME=" + l.Home}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start() // it ends when its input does
	}
	if err != nil {
		return nil, err
	}
	lines := bufio.NewReader(out)
	kill := func() { _ = cmd.Process.Kill() }
	return &conversation{
		meta: []string{caller.Capable("{}")},
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
