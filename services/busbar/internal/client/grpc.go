package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Schemes of an edge's URL that select gRPC: plain, and over TLS.
const (
	schemeGRPC  = "grpc"
	schemeGRPCS = "grpcs"
)

// GRPC is an edge over gRPC: the service of proto/busbar/gateway/v1. Its
// exported fields must not change after the first use.
type GRPC struct {
	// URL of the edge: grpc://host:port, or grpcs:// for TLS.
	URL string
	// Header is sent with every request as metadata, for example Authorization.
	Header http.Header
	// Version of the program, for the user agent. Default "dev".
	Version string
	// Warn hears why a tool of the list was left out. Nil means silence.
	Warn func(message string)

	mu     sync.Mutex
	conn   *rpc.ClientConn // nil before the first use
	listed []Tool
	// dialled is why the last attempt to connect failed; nil when it did not.
	dialled error
}

// endpoint returns the URL to connect to, with a port.
func (g *GRPC) endpoint() (*url.URL, error) {
	u, err := url.Parse(g.URL)
	switch {
	case err != nil:
		return nil, &UsageError{Message: fmt.Sprintf("%q is not a URL", g.URL)}
	case u.Hostname() == "":
		return nil, &UsageError{Message: fmt.Sprintf("%q names no host", g.URL)}
	case u.User != nil || u.RawQuery != "" || strings.Trim(u.Path, "/") != "":
		return nil, &UsageError{Message: fmt.Sprintf("%q: a URL for gRPC has a host and a port, and nothing else", u.Redacted())}
	case u.Port() == "" && u.Scheme == schemeGRPC:
		return nil, &UsageError{Message: fmt.Sprintf("%q names no port", g.URL)}
	case u.Port() == "":
		u.Host = net.JoinHostPort(u.Hostname(), "443")
	}
	u.Path = ""
	return u, guardToken(u, g.Header)
}

func (g *GRPC) shownURL() string {
	u, err := g.endpoint()
	if err != nil {
		return g.URL
	}
	return u.String()
}

// client returns what makes calls. Nothing is connected before the first.
func (g *GRPC) client() (gatewayv1.GatewayServiceClient, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == nil {
		u, err := g.endpoint()
		if err != nil {
			return nil, err
		}
		security := insecure.NewCredentials()
		if u.Scheme == schemeGRPCS {
			security = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
		}
		g.conn, err = rpc.NewClient("passthrough:///"+u.Host,
			rpc.WithTransportCredentials(security), rpc.WithContextDialer(g.dial), rpc.WithStatsHandler(sentWatch{}),
			rpc.WithUserAgent("busbar/"+cmp.Or(g.Version, "dev")), rpc.WithDefaultCallOptions(rpc.MaxCallRecvMsgSize(maxMessage)))
		if err != nil {
			return nil, &UsageError{Message: err.Error()}
		}
	}
	return gatewayv1.NewGatewayServiceClient(g.conn), nil
}

// dial connects, and remembers why it could not: of that, gRPC tells in words
// only.
func (g *GRPC) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dialled = err
	return conn, err
}

// Close implements Edge.
func (g *GRPC) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.conn == nil {
		return nil
	}
	return g.conn.Close()
}

func (g *GRPC) known() []Tool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listed
}

// begin prepares one request. method is that of MCP which it carries out; empty
// for none. What ctx ends is the request, without the edge being told of a
// deadline: it would race with us to say so.
func (g *GRPC) begin(ctx context.Context, method string) (gatewayv1.GatewayServiceClient, *grpcRequest, error) {
	client, err := g.client()
	if err != nil {
		return nil, nil, err
	}
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel)
	r := &grpcRequest{edge: g, method: method, outer: ctx, end: func() { stop(); cancel() }}
	for name, values := range g.Header {
		for _, v := range values {
			own = metadata.AppendToOutgoingContext(own, strings.ToLower(name), v)
		}
	}
	r.ctx = context.WithValue(own, sentKey{}, &r.sent)
	return client, r, nil
}

// Tools implements Edge.
func (g *GRPC) Tools(ctx context.Context) ([]Tool, error) {
	client, r, err := g.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	defer r.end()
	var tools []Tool
	cursor := ""
	for range maxPages {
		page, err := client.ListTools(r.ctx, &gatewayv1.ListToolsRequest{Cursor: cursor})
		if err != nil {
			return nil, r.failed(err)
		}
		for _, wire := range page.Tools {
			t, err := readTool(wire)
			if err != nil {
				if g.Warn != nil {
					g.Warn(fmt.Sprintf("tool %q left out: %v", wire.Name, err))
				}
				continue
			}
			tools = append(tools, t)
		}
		if cursor = page.NextCursor; cursor == "" {
			g.mu.Lock()
			g.listed = tools
			g.mu.Unlock()
			return tools, nil
		}
	}
	return nil, &ProtocolError{Message: fmt.Sprintf("the tool list has more than %d pages", maxPages)}
}

// readTool makes a tool as MCP has it.
func readTool(wire *gatewayv1.Tool) (Tool, error) {
	t := Tool{Tool: mcp.Tool{
		Name: wire.Name, Title: wire.Title, Description: wire.Description,
		InputSchema: jsontext.Value(wire.InputSchema), OutputSchema: jsontext.Value(wire.OutputSchema),
	}}
	if len(wire.Annotations) > 0 {
		if err := decode(wire.Annotations, &t.Annotations); err != nil {
			return t, err
		}
	}
	var err error
	t.Raw, err = json.Marshal(t.Tool)
	return t, err
}

// Call implements Edge. Like over HTTP, the tool list is fetched first unless it
// is known: what to do about an error depends on the tool.
func (g *GRPC) Call(ctx context.Context, name string, arguments []byte, onProgress func(Progress)) (*Result, error) {
	args, err := checkArguments(arguments)
	if err != nil {
		return nil, err
	}
	if g.known() == nil {
		if _, err := g.Tools(ctx); err != nil {
			return nil, err
		}
	}
	client, r, err := g.begin(ctx, mcp.MethodToolsCall)
	if err != nil {
		return nil, err
	}
	defer r.end()
	stream, err := client.CallTool(r.ctx, &gatewayv1.CallToolRequest{Name: name, Arguments: args})
	for err == nil {
		var m *gatewayv1.CallToolResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		if p := m.GetProgress(); p != nil && onProgress != nil {
			onProgress(readProgress(p))
		}
		if res := m.GetResult(); res != nil {
			return makeResult(res.Content, res.StructuredContent, res.IsError)
		}
	}
	if errors.Is(err, io.EOF) {
		return nil, &ProtocolError{Method: mcp.MethodToolsCall, Message: "the call ended without a result"}
	}
	if err = r.failed(err); argumentsFail(err) {
		// For MCP that is a result, so that a model may read it.
		content, err := json.Marshal([]mcp.Content{mcp.Text(err.Error())})
		if err != nil {
			return nil, &ProtocolError{Method: mcp.MethodToolsCall, Message: "the error is malformed", Err: err}
		}
		return makeResult(content, nil, true)
	}
	return nil, err
}

// argumentsFail reports whether arguments did not fit the tool's schema: only
// then the edge names the parameter.
func argumentsFail(err error) bool {
	var (
		e    *RPCError
		data struct {
			Parameter *string `json:"parameter"`
		}
	)
	return errors.As(err, &e) && e.Reason == fault.InvalidParams && decode(e.Data, &data) == nil && data.Parameter != nil
}

func readProgress(p *gatewayv1.Progress) Progress {
	out := Progress{Progress: p.Progress, Message: p.Message}
	if p.Total != 0 {
		out.Total = &p.Total
	}
	return out
}

// Held implements Edge.
func (g *GRPC) Held(ctx context.Context) ([]Held, error) {
	client, r, err := g.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	defer r.end()
	list, err := client.ListApprovals(r.ctx, &gatewayv1.ListApprovalsRequest{})
	if err != nil {
		return nil, r.failed(err)
	}
	out := make([]Held, len(list.Calls))
	for i, wire := range list.Calls {
		out[i] = readHeld(wire)
	}
	return out, nil
}

// FindHeld implements Edge.
func (g *GRPC) FindHeld(ctx context.Context, id string) (*Held, error) {
	client, r, err := g.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	defer r.end()
	found, err := client.GetApproval(r.ctx, &gatewayv1.GetApprovalRequest{Approval: id})
	if err != nil {
		return nil, r.failed(err)
	}
	held := readHeld(found.Call)
	return &held, nil
}

func readHeld(wire *gatewayv1.HeldCall) Held {
	return Held{
		Approval: wire.GetApproval(), Name: wire.GetName(), Title: wire.GetTitle(), Shown: wire.GetShown(),
		Parameters: wire.GetArguments(), Expires: wire.GetExpires().AsTime(),
	}
}

// Approve implements Edge.
func (g *GRPC) Approve(ctx context.Context, id string, yes bool) (*Result, error) {
	method := ""
	if yes {
		method = mcp.MethodToolsCall
	}
	client, r, err := g.begin(ctx, method)
	if err != nil {
		return nil, err
	}
	defer r.end()
	done, err := client.Approve(r.ctx, &gatewayv1.ApproveRequest{Approval: id, Approve: yes})
	if err != nil {
		return nil, denied(r.failed(err), yes)
	}
	res := done.GetResult()
	return makeResult(res.GetContent(), res.GetStructuredContent(), res.GetIsError())
}
