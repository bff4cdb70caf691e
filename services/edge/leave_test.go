package edge_test

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/services/edge"
)

// An edge that is told to stop tells whoever looks after it, and serves on until they know;
// what comes meanwhile is answered, and its connection ends. With nobody who looks it stops.
func TestLeaving(t *testing.T) {
	t.Parallel()
	e, _ := start(t).join(t)
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
	if err := receive(t, "the edge stops, since nobody has asked", done); err != nil {
		t.Error(err)
	}

	e, _ = start(t).join(t)
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
	// GOAWAY comes with the answer: the next request is over another connection.
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
	_ = receive(t, "the edge stops", done)
}
