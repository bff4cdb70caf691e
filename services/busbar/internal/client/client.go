// Package client is the command line's side of an edge: it lists and calls its
// tools, over MCP, and shows the answers to people and scripts.
package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxPages ends a tool list that never ends.
const maxPages = 1000

// Client is an edge over HTTP: MCP over Streamable HTTP (2026-07-28, stateless),
// and what stands beside it for batches and approvals. It may be used from many goroutines; its exported
// fields must not change after the first use.
type Client struct {
	// URL of the edge: http://host:port, or with the path of its MCP endpoint.
	// "/mcp" is appended when the path is empty or "/", http:// put in front
	// when there is no scheme.
	URL string
	// HTTP sends the requests. Nil means http.DefaultClient. Redirects are
	// never followed: a call must not reach a host the user did not name.
	HTTP *http.Client
	// Header is sent with every request, for example Authorization. The
	// protocol's own headers win.
	Header http.Header
	// Version of the program, for clientInfo. Default "dev".
	Version string
	// Warn hears why a tool of the list was left out. Nil means silence.
	Warn func(message string)
	// Waiting is called when a request is sent, and what it returns when the answer is
	// there. Nil means that nobody wants to know.
	Waiting func() (answered func())

	// invalid is why nothing can be sent: what the user gave.
	invalid error
	lastID  atomic.Int64
	mu      sync.Mutex
	// listed is the last tool list; nil before the first.
	listed *listing
}

// listing is a tool list as fetched.
type listing struct {
	tools []Tool
	// rejected names the tools left out, and why.
	rejected map[string]string
}

// endpoint returns the URL to post to.
func (c *Client) endpoint() (*url.URL, error) {
	raw := c.URL
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	switch {
	case c.invalid != nil:
		return nil, c.invalid
	case err != nil:
		return nil, &UsageError{Message: fmt.Sprintf("%q is not a URL", c.URL)}
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, &UsageError{Message: fmt.Sprintf("%q: the scheme must be http or https", c.URL)}
	case u.Host == "":
		return nil, &UsageError{Message: fmt.Sprintf("%q names no host", c.URL)}
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/mcp"
	}
	u.Fragment = ""
	return u, guardToken(u, c.Header)
}

// Tools returns every tool the edge offers, in the edge's order. Tools whose
// definition breaks the rules for x-mcp-header are left out, as the
// specification demands; Warn hears of them.
func (c *Client) Tools(ctx context.Context) ([]Tool, error) {
	l, err := c.list(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Clone(l.tools), nil
}

// list fetches all pages of the tool list and keeps it for calls.
func (c *Client) list(ctx context.Context) (*listing, error) {
	l := &listing{rejected: map[string]string{}}
	err := c.each(ctx, mcp.MethodToolsList, "tools", func(raw jsontext.Value) error {
		t, err := decodeTool(raw)
		if err == nil {
			l.tools = append(l.tools, t)
			return nil
		}
		l.rejected[t.Name] = err.Error()
		if c.Warn != nil {
			c.Warn(fmt.Sprintf("tool %q left out: %v", t.Name, err))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.listed = l
	c.mu.Unlock()
	return l, nil
}

// each visits the entries of a list, which are a member of its pages.
func (c *Client) each(ctx context.Context, method, entries string, visit func(jsontext.Value) error) error {
	var cursor *string
	for range maxPages {
		raw, err := c.do(ctx, request{method: method, params: params{Cursor: cursor}})
		if err != nil {
			return err
		}
		var (
			page  map[string]jsontext.Value
			found []jsontext.Value
		)
		if err = decode(raw, &page); err == nil && page[entries] != nil {
			err = decode(page[entries], &found)
		}
		if cursor = nil; err == nil && page["nextCursor"] != nil {
			err = decode(page["nextCursor"], &cursor)
		}
		if err != nil {
			return &ProtocolError{Method: method, Message: "the list of " + entries + " is malformed", Err: err}
		}
		if typ := resultType(raw); typ != typeComplete {
			return &ProtocolError{Method: method, Message: fmt.Sprintf("result type %q is not one of this method", typ)}
		}
		for _, entry := range found {
			if err := visit(entry); err != nil {
				return err
			}
		}
		// An empty cursor is a cursor (pagination, Implementation Guidelines).
		if cursor == nil {
			return nil
		}
	}
	return &ProtocolError{Method: method, Message: fmt.Sprintf("the list of %s has more than %d pages", entries, maxPages)}
}

// Call calls a tool. arguments is a JSON object; nil means {}. onProgress, if
// not nil, hears every progress notification, one at a time, before Call
// returns. Cancelling ctx closes the answer's stream, which cancels the call.
//
// The tool list is fetched first unless the Client has it, because it says
// which parameters must be mirrored into headers.
func (c *Client) Call(ctx context.Context, name string, arguments []byte, onProgress func(Progress)) (*Result, error) {
	args, err := checkArguments(arguments)
	if err != nil {
		return nil, err
	}
	return c.call(ctx, request{params: params{Name: name, Arguments: args}, onProgress: onProgress})
}

// call makes the call of a request of which method and headers are still missing.
func (c *Client) call(ctx context.Context, r request) (*Result, error) {
	l, err := c.listedOnce(ctx)
	if err != nil {
		return nil, err
	}
	res, err := c.callWith(ctx, l, r)
	var refused *RPCError
	if errors.As(err, &refused) && refused.Reason == fault.HeaderMismatch {
		// Nothing ran; the tool's schema may have changed since the list.
		if l, err = c.list(ctx); err != nil {
			return nil, err
		}
		res, err = c.callWith(ctx, l, r)
	}
	return res, err
}

// listedOnce is the last tool list, or a first one.
func (c *Client) listedOnce(ctx context.Context) (*listing, error) {
	c.mu.Lock()
	l := c.listed
	c.mu.Unlock()
	if l != nil {
		return l, nil
	}
	return c.list(ctx)
}

func (c *Client) callWith(ctx context.Context, l *listing, r request) (*Result, error) {
	name := r.params.Name
	t := l.find(name)
	if why, out := l.rejected[name]; out && t == nil {
		return nil, &RejectedToolError{Name: name, Why: why}
	}
	r.method, r.progress = mcp.MethodToolsCall, true
	if t != nil {
		r.header = mirror(t.mirrored, r.params.Arguments)
	}
	raw, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	return decodeResult(raw)
}

// describe asks an edge whose list is not of all tools for one, and adds it to the list;
// nil if there is no such tool.
func (c *Client) describe(ctx context.Context, l *listing, name string) *Tool {
	arguments, err := json.Marshal(map[string][]string{"names": {name}})
	if err != nil {
		return nil // no tool has a name that is not UTF-8
	}
	res, err := c.callWith(ctx, l, request{params: params{Name: "describe_tools", Arguments: arguments}})
	if err != nil || res.IsError || len(res.Content) != 1 {
		return nil
	}
	t, err := decodeTool(jsontext.Value(strings.TrimSpace(res.Content[0].Text)))
	if err != nil || t.Name != name {
		return nil
	}
	known := *l
	known.tools = append(slices.Clip(l.tools), t)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed = &known
	return &t
}

// find returns the tool of a name; nil for none.
func (l *listing) find(name string) *Tool {
	i := slices.IndexFunc(l.tools, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &l.tools[i]
}

// waiting says that a request was sent, and returns what says that it is answered.
func (c *Client) waiting() (answered func()) {
	if c.Waiting == nil {
		return func() {}
	}
	return c.Waiting()
}

// known returns the tools of the last list.
func (c *Client) known() []Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.listed == nil {
		return nil
	}
	return c.listed.tools
}

// nextID returns an id no other request of this client has.
func (c *Client) nextID() string { return strconv.FormatInt(c.lastID.Add(1), 10) }

// guardToken refuses to send credentials to another machine unencrypted.
func guardToken(u *url.URL, header http.Header) error {
	if u.Scheme == "https" || header.Get("Authorization") == "" || loopback(u.Hostname()) {
		return nil
	}
	return &UsageError{Message: fmt.Sprintf("the token would travel to %s unencrypted; use https:// instead, or no token", u.Host)}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
