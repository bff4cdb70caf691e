package edge_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// An edge that is told to stop shows that at /readyz, and serves on until whoever asks
// there knows. Requests that come meanwhile are answered, and their connections end. If
// nobody asks, it stops at once.
func TestLeaving(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := &encrypted{ca: certtest.New(t)}
	s.pair = s.ca.Issue(t, "edge", time.Hour)
	serve := func(leave time.Duration) (l *edge.Listeners, stop func(), done chan error) {
		var err error
		l, err = edge.ListenFlags{Listen: "127.0.0.1:0", TLSCert: s.pair.Cert, TLSKey: s.pair.Key}.Open(false)
		if err != nil {
			t.Fatal(err)
		}
		l.LeaveTime = leave
		s.http = l.HTTP.Addr().String()
		ctx, stop := context.WithCancel(context.Background())
		done = make(chan error, 1)
		go func() { done <- e.ServeAll(ctx, l) }()
		t.Cleanup(func() { stop(); l.Close() })
		return l, stop, done
	}
	_, stop, done := serve(time.Hour)
	if _, err := s.call(s.client(t, 1), "hello"); err != nil {
		t.Error(err)
	}
	stop()
	if err := edgetest.Receive(t, "the edge stops, since nobody has asked", done); err != nil {
		t.Error(err)
	}

	e = one(t)
	l, stop, done := serve(time.Hour)
	ready := func() int {
		resp, err := s.client(t, 1).Get("https://" + s.http + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := ready(); status != http.StatusOK {
		t.Fatalf("not ready: %d", status)
	}
	two := s.client(t, 2)
	if _, err := s.call(two, "before"); err != nil {
		t.Fatal(err)
	}
	stop()
	bustest.Eventually(t, "it says that it stops", func() bool { return ready() == http.StatusServiceUnavailable })
	if resp, err := s.call(s.client(t, 1), "meanwhile"); err != nil || !resp.Close {
		t.Errorf("a call while it stops: %v, %+v", err, resp)
	}
	// GOAWAY comes with the answer: the next request uses another connection.
	if _, err := s.call(two, "meanwhile"); err != nil {
		t.Error(err)
	}
	fresh := false
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { fresh = fresh || !c.Reused }}
	bustest.Eventually(t, "another connection is made", func() bool {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodPost, "https://"+s.http+"/tools/echo", strings.NewReader(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := two.Do(r)
		if err == nil {
			_ = resp.Body.Close()
		}
		return fresh
	})
	_ = l.HTTP.Close() // rather than in an hour
	_ = edgetest.Receive(t, "the edge stops", done)
}

// Streams that wait are told that the edge stops, and end as HTTP demands. The edge waits
// for them, although the HTTP server does not know most of them.
func TestLeavingEndsStreams(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := &encrypted{ca: certtest.New(t)}
	s.pair = s.ca.Issue(t, "edge", time.Hour)
	l, err := edge.ListenFlags{Listen: "127.0.0.1:0", TLSCert: s.pair.Cert, TLSKey: s.pair.Key}.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.ServeAll(ctx, l) }()
	t.Cleanup(stop)
	send := func(version int, method, path, body string, headers ...string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, "https://"+l.HTTP.Addr().String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		resp, err := s.client(t, version).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %d", method, path, resp.StatusCode)
		}
		return resp
	}
	streams := map[string]*bufio.Reader{}
	for version := 1; version <= 2; version++ {
		add := func(name, first string, resp *http.Response) {
			name = fmt.Sprintf("%s over HTTP/%d", name, version)
			streams[name] = bufio.NewReader(resp.Body)
			if line, err := streams[name].ReadString('\n'); err != nil || !strings.HasPrefix(line, first) {
				t.Fatalf("%s begins with %q: %v", name, line, err)
			}
		}
		add("modern", "event: message", send(version, http.MethodPost, "/mcp", edgetest.Request("1", mcp.MethodListen, `"notifications":{"toolsListChanged":true}`),
			mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, mcp.MethodListen))
		session := send(version, http.MethodPost, "/mcp", edgetest.Legacy("0", mcp.MethodInitialize, `"protocolVersion":"2025-11-25","capabilities":{}`)).Header.Get(mcp.HeaderSessionID)
		add("legacy", "id: ", send(version, http.MethodGet, "/mcp", "", mcp.HeaderSessionID, session))
		add("of 2024-11-05", "event: endpoint", send(version, http.MethodGet, "/sse", ""))
	}
	stop()
	for name, in := range streams {
		rest, err := io.ReadAll(in)
		if err != nil {
			t.Errorf("%s breaks off after %q: %v", name, rest, err)
		}
		if strings.HasPrefix(name, "modern") != strings.Contains(string(rest), `"resultType":"complete"`) {
			t.Errorf("%s ends with %q", name, rest)
		}
	}
	if err := edgetest.Receive(t, "the edge stops", done); err != nil {
		t.Error(err)
	}
}
