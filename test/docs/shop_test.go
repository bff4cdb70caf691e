package docs

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/bustest/programs"
)

// shopRows are the rows of docs/explanation/comparison.md about one server that is written three
// times: a client's request, and a part of the answer of the official SDK, FastMCP and Busbar.
var shopRows = []struct{ row, method, params, official, fastMCP, busbar string }{
	{"results match the tool's schema", "tools/call", `{"name":"shop_get","arguments":{"name":"lamp"}}`, `"structuredContent":{"name":"lamp","price":30}`, `"structuredContent":{"name":"lamp","price":30}`, `"structuredContent":{"name":"lamp","price":30}`},
	{"a default is filled in", "tools/call", `{"name":"shop_quote","arguments":{"name":"chair"}}`, `{"total":80}`, `{"total":80}`, `{"total":80}`},
	{"bounds hold before the handler runs", "tools/call", `{"name":"shop_quote","arguments":{"name":"chair","quantity":101}}`, `"isError":true`, `"code":-32602`, `/quantity`},
	{"a value outside the choices is refused", "tools/call", `{"name":"shop_get","arguments":{"name":"bed"}}`, `"isError":true`, `"code":-32602`, `/name`},
	{"a resource", "resources/read", `{"uri":"shop://items"}`, `\"price\":80`, `\"price\":80`, `\"price\":80`},
	{"a template", "resources/read", `{"uri":"shop://items/lamp"}`, `\"price\":30`, `\"price\":30`, `\"price\":30`},
	{"a template refuses an unknown item", "resources/read", `{"uri":"shop://items/bed"}`, `"error"`, `"error"`, `"error"`},
	{"a prompt", "prompts/get", `{"name":"shop_praise","arguments":{"name":"lamp"}}`, `Praise our lamp for 30 euros.`, `Praise our lamp for 30 euros.`, `Praise our lamp for 30 euros.`},
	{"its argument completes itself", "completion/complete", `{"ref":{"type":"ref/prompt","name":"shop_praise"},"argument":{"name":"name","value":"c"}}`, `"values":["chair"]`, `"values":["chair"]`, `"values":["chair"]`},
	{"the template's variable, too", "completion/complete", `{"ref":{"type":"ref/resource","uri":"shop://items/{name}"},"argument":{"name":"name","value":"l"}}`, `"values":["lamp"]`, `"values":["lamp"]`, `"values":["lamp"]`},
	{"instructions for models", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`, `Prices are in euros.`, `Prices are in euros.`, `Prices are in euros.`},
}

// TestSameServer runs the server of docs/explanation/comparison.md in its forms, asks all the same,
// and counts the lines that the page tells.
func TestSameServer(t *testing.T) {
	t.Parallel()
	home := build(t)
	shop, err := programs.Build(root, "./test/docs/shop")
	if err != nil {
		t.Fatal(err)
	}
	official := filepath.Join(t.TempDir(), "official")
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", official, "./shop")
	compile.Dir = filepath.Join(root, "test/bench/peers")
	compile.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	peer := exec.Command(official)
	said, err := peer.StdoutPipe()
	if err == nil {
		err = peer.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = peer.Process.Kill(); _ = peer.Wait() })
	theirs, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--services", "text", "--data-dir", data)
	ready := start(t, dev)
	ours, nats := regexp.MustCompile(`mcp=(http://\S+)`).FindStringSubmatch(ready), regexp.MustCompile(`nats=(\S+)`).FindStringSubmatch(ready)
	if ours == nil || nats == nil {
		t.Fatal(ready)
	}
	service := exec.Command(shop[0], "--nats", nats[1])
	service.Env = append(os.Environ(), "BUSBAR_DATA_DIR="+data)
	startQuiet(t, service)
	eventually(t, "the shop is open", func() error {
		if answer := ask(t, ours[1], shopRows[0].method, shopRows[0].params); !strings.Contains(answer, shopRows[0].busbar) {
			return errors.New(answer)
		}
		return nil
	})
	fast := fastMCP(t)
	page := read(t, "docs/explanation/comparison.md")
	for _, r := range shopRows {
		if answer := ask(t, "http://"+strings.TrimSpace(theirs), r.method, r.params); !strings.Contains(answer, r.official) {
			t.Errorf("%s: the official SDK answers %s", r.row, answer)
		}
		if fast != "" {
			if answer := ask(t, fast, r.method, r.params); !strings.Contains(answer, r.fastMCP) {
				t.Errorf("%s: FastMCP answers %s", r.row, answer)
			}
		}
		eventually(t, r.row+": Busbar answers", func() error {
			answer := ask(t, ours[1], r.method, r.params)
			switch {
			case strings.Contains(answer, r.busbar):
			case strings.Contains(answer, "stopped answering") || bustest.StoodStill(answer):
				return errors.New(answer) // true of a machine that stands still, and no answer of the shop
			default:
				t.Errorf("%s: Busbar answers %s", r.row, answer)
			}
			return nil
		})
		if !strings.Contains(page, "| "+r.row+" |") {
			t.Errorf("docs/explanation/comparison.md has no row %q", r.row)
		}
	}
	row := fmt.Sprintf("| lines of code | %d | %d | %d |", lines(t, "test/bench/peers/shop/main.go"), lines(t, "test/clients/shop.mjs"), lines(t, "test/docs/shop/main.go"))
	if !strings.Contains(page, row) {
		t.Errorf("docs/explanation/comparison.md lacks %s", row)
	}
}

// fastMCP runs the server in its third form, where "make clients" has brought the packages;
// empty elsewhere.
func fastMCP(t *testing.T) (url string) {
	t.Helper()
	dir := filepath.Join(root, "test/clients")
	node, _ := filepath.Glob(filepath.Join(dir, "node_modules/node-linux-*/bin/node"))
	if _, err := os.Stat(filepath.Join(dir, "node_modules/fastmcp")); err != nil || len(node) != 1 {
		t.Log("FastMCP is not asked: its package, or Node, is not there; make clients brings both")
		return ""
	}
	// It cannot say which port it was given, so another program may take the one it is told.
	for range 5 {
		if url := listening(t, node[0], dir); url != "" {
			return url
		}
	}
	t.Fatal("FastMCP ended each time before it served")
	return ""
}

// listening is where FastMCP serves; empty when it ended, as where its port is taken.
func listening(t *testing.T, node, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	_, port, _ := net.SplitHostPort(address)
	server := exec.Command(node, "shop.mjs", port)
	server.Dir = dir
	var said bytes.Buffer
	server.Stdout, server.Stderr = &said, &said
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = server.Wait(); close(ended) }()
	t.Cleanup(func() { _ = server.Process.Kill(); <-ended })
	url, served := "http://"+address+"/mcp", false
	eventually(t, "FastMCP serves", func() error {
		select {
		case <-ended:
			t.Logf("FastMCP ended: %s", said.String())
			return nil
		default:
		}
		resp, err := http.Post(url, "application/json", strings.NewReader(`{}`))
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		served = true
		return nil
	})
	if !served {
		return ""
	}
	return url
}

// ask sends one request of MCP 2025-06-18 and returns the answer.
func ask(t *testing.T, url, method, params string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", "2025-06-18")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var whole any
	_, event, events := strings.Cut(string(body), "data: ")
	if events {
		body = []byte(event)
	}
	if err := json.Unmarshal(body, &whole); err != nil {
		return string(body)
	}
	plain, _ := json.Marshal(whole) // in one form, whoever wrote it
	return string(plain)
}

func read(t *testing.T, page string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// lines counts the lines of a program that are neither empty nor comments.
func lines(t *testing.T, path string) (n int) {
	t.Helper()
	for line := range strings.Lines(read(t, path)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
