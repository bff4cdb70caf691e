package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"github.com/busbar-mcp/busbar/test/bench/load"
)

// Versions of MCP: modern calls stand alone, legacy ones have a session.
const (
	modern = "2026-07-28"
	legacy = "2025-11-25"
)

// meta describes the client in a modern request.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}%s}`

// small is the small call: the same bytes for every server.
const (
	smallTool      = "text_processor"
	smallArguments = `{"operation":"statistics","text":"One bus. Many circuits.","stat_options":["chars"]}`
	// Servers order the members of a result as they like.
	smallAnswer = `"chars":23`
)

// call is a tools/call to be made.
type call struct {
	tool, arguments, want string
	size                  int
	// progress asks for reports of it.
	progress bool
	// key is an idempotency key, for a call with an effect.
	key string
}

var small = call{tool: smallTool, arguments: smallArguments, want: smallAnswer}

// request is one whole HTTP request.
func request(address, key string, headers []string, path string, body []byte) []byte {
	var r bytes.Buffer
	fmt.Fprintf(&r, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", path, address)
	if key != "" {
		fmt.Fprintf(&r, "Authorization: Bearer %s\r\n", key)
	}
	for _, h := range headers {
		r.WriteString(h + "\r\n")
	}
	fmt.Fprintf(&r, "Content-Length: %d\r\n\r\n%s", len(body), body)
	return r.Bytes()
}

// modern makes the target of a call of 2026-07-28.
func (c call) modern(s *system) *load.Target {
	token := ""
	if c.progress {
		token = `,"progressToken":1`
	}
	if c.key != "" {
		token += fmt.Sprintf(`,"io.github.busbar-mcp/idempotencyKey":%q`, c.key)
	}
	params := fmt.Sprintf(`"name":%q,"arguments":%s,`, c.tool, c.arguments)
	return c.target(s, rpc(s, "tools/call", c.tool, params, token))
}

func (c call) target(s *system, request []byte) *load.Target {
	return &load.Target{Address: s.address, Request: request, Want: []byte(c.want), Never: []byte(`"isError":true`), Size: c.size}
}

// beside is the same request to another server, for its answer n; of the floor, that is.
func beside(s *system, t *load.Target, n int) *load.Target {
	other := *t
	other.Address = s.address
	other.Request = bytes.Replace(t.Request, []byte("POST /mcp HTTP"), fmt.Appendf(nil, "POST /mcp/%d HTTP", n), 1)
	return &other
}

// rpc returns a modern request of any method. name is the tool, resource or prompt; params are the
// members before _meta, and more is added to _meta.
func rpc(s *system, method, name, params, more string) []byte {
	headers := []string{"Mcp-Protocol-Version: " + modern, "Mcp-Method: " + method}
	if name != "" {
		headers = append(headers, "Mcp-Name: "+name)
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s`+meta+`}}`, method, params, more)
	return request(s.address, s.key, headers, "/mcp", body)
}

// legacy makes a target for each of n sessions of 2025-11-25.
func (c call) legacy(s *system, n int) ([]*load.Target, error) {
	token := ""
	if c.progress {
		token = `,"_meta":{"progressToken":1}`
	}
	body := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s%s}}`, c.tool, c.arguments, token)
	var all []*load.Target
	for range n {
		session, err := openSession(s)
		if err != nil {
			return nil, err
		}
		all = append(all, c.target(s, request(s.address, s.key, []string{"Mcp-Protocol-Version: " + legacy, "Mcp-Session-Id: " + session}, "/mcp", body)))
	}
	return all, nil
}

// openSession begins a session of 2025-11-25.
func openSession(s *system) (string, error) {
	post := func(session, body string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodPost, "http://"+s.address+"/mcp", strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Mcp-Protocol-Version", legacy)
		}
		if s.key != "" {
			r.Header.Set("Authorization", "Bearer "+s.key)
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return resp, err
	}
	var resp *http.Response
	err := load.Patiently(func() (err error) {
		resp, err = post("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}`)
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
			err = fmt.Errorf(`%s: "unavailable"`, resp.Status)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	session := resp.Header.Get("Mcp-Session-Id")
	if resp.StatusCode != http.StatusOK || session == "" {
		return "", fmt.Errorf("initialize at %s: %s, session %q", s.address, resp.Status, session)
	}
	resp, err = post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err == nil && resp.StatusCode != http.StatusAccepted {
		err = fmt.Errorf("notifications/initialized at %s: %s", s.address, resp.Status)
	}
	return session, err
}
