package probe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/probe"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// get asks a probe for a path, with an Authorization header unless that is empty.
func get(t *testing.T, url, authorization string) (status int, body string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Close = true
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw), resp.Header
}

// serve serves a probe as flags say, and returns its URL without a path.
func serve(t *testing.T, f probe.Flags, p *probe.Probe) string {
	t.Helper()
	l, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, p) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return strings.TrimSuffix(l.URL(), probe.MetricsPath)
}

func TestProbe(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	p := probe.New(func() []probe.Check {
		return []probe.Check{
			{Name: "bus", Look: func() (string, error) { return "connected", nil }},
			{Name: "database", Look: func() (string, error) {
				if away.Load() {
					return "", errors.New("it is\naway")
				}
				return "there", nil
			}},
		}
	})
	p.Gauge("busbar_test_gauge", "A gauge.", func() float64 { return 7 })
	url := serve(t, probe.Flags{MetricsListen: "127.0.0.1:0"}, p)
	for _, c := range []struct {
		away   bool
		path   string
		status int
		says   string
	}{
		{false, "/healthz", 200, "ok\n"},
		{false, "/readyz", 200, "ready\nbus: connected\ndatabase: there\n"},
		{false, "/metrics", 200, "\nbusbar_ready{check=\"database\"} 1\n"},
		{false, "/metrics", 200, "\nbusbar_test_gauge 7\n"},
		{true, "/healthz", 200, "ok\n"}, // it is alive: a restart would not help
		{true, "/readyz", 503, "not ready\nbus: connected\ndatabase: not ready: it is; away\n"},
		{true, "/metrics", 200, "\nbusbar_ready{check=\"database\"} 0\n"},
		{true, "/metrics", 200, "\nbusbar_ready{check=\"bus\"} 1\n"},
		{true, "/", 404, ""},
	} {
		away.Store(c.away)
		if status, body, _ := get(t, url+c.path, ""); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: %d %.300s", c.path, status, body)
		}
	}
}

// With a token, only requests with that token may read the metrics. Probes of an orchestrator have
// none.
func TestToken(t *testing.T) {
	t.Parallel()
	const own = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(own+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := serve(t, probe.Flags{MetricsListen: "127.0.0.1:0", MetricsToken: file}, probe.New(func() []probe.Check { return nil }))
	for _, c := range []struct {
		path, shown string
		status      int
	}{
		{"/healthz", "", 200}, {"/readyz", "", 200}, {"/metrics", "", 401}, {"/metrics", "Bearer x", 401}, {"/metrics", "Basic " + own, 401}, {"/metrics", "Bearer " + own, 200},
	} {
		status, body, h := get(t, url+c.path, c.shown)
		if status != c.status || (status == 401) != (h.Get("WWW-Authenticate") != "") || status == 401 && strings.Contains(body, "go_") {
			t.Errorf("%+v: %d %.100s", c, status, body)
		}
	}
}

// TestHost: metrics without a token cannot be read by a web page whose own name resolves to
// loopback (DNS rebinding).
func TestHost(t *testing.T) {
	t.Parallel()
	const own = "0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	checks := func() []probe.Check { return nil }
	open := serve(t, probe.Flags{MetricsListen: "127.0.0.1:0"}, probe.New(checks))
	closed := serve(t, probe.Flags{MetricsListen: "127.0.0.1:0", MetricsToken: file}, probe.New(checks))
	for _, c := range []struct {
		url, host string
		status    int
	}{
		{open, "localhost", 200}, {open, "LOCALHOST:9100", 200}, {open, "127.0.0.2:9100", 200}, {open, "[::1]:9100", 200}, {open, "[::1]", 200},
		{open, "evil.example", 403}, {open, "evil.example:9100", 403}, {open, "localhost.evil.example", 403}, {open, "127.0.0.1.evil.example", 403}, {open, "10.0.0.1", 403},
		{closed, "evil.example", 200}, // a web page does not have the token
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close, r.Host = true, c.host
		r.Header.Set("Authorization", "Bearer "+own)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != c.status || (c.status == 200) != strings.Contains(string(body), "go_") {
			t.Errorf("%s: %d %.200s", c.host, resp.StatusCode, body)
		}
		if c.status == 403 && !strings.Contains(string(body), "--metrics-token-file") {
			t.Errorf("%s is not told the way on: %s", c.host, body)
		}
	}
}

func TestOpen(t *testing.T) {
	t.Parallel()
	if l, err := (probe.Flags{}).Open(); l != nil || err != nil {
		t.Errorf("%v %v: nobody asked for a listener", l, err)
	}
	for says, f := range map[string]probe.Flags{
		"is a public address":                  {MetricsListen: "0.0.0.0:0"},
		"--metrics-token-file":                 {MetricsListen: "127.0.0.1:0", MetricsToken: "/nowhere"},
		"choose another with --metrics-listen": {MetricsListen: "127.0.0.1:99999"},
	} {
		if l, err := f.Open(); l != nil || err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v %v, want %s", f, l, err, says)
		}
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	room, had := probe.NewLabelLimit[string](100), 0
	for i := range 10_000 {
		if room.For(fmt.Sprint("name-", i)) {
			had++
		}
	}
	if had != 100 || !room.For("name-99") || room.For("name-100") {
		t.Errorf("%d names", had)
	}
}

func TestEnds(t *testing.T) {
	t.Parallel()
	l, err := probe.Flags{MetricsListen: "127.0.0.1:0"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx, probe.New(func() []probe.Check { return nil })) }()
	get(t, "http://"+l.Addr().String()+"/healthz", "")
	stop()
	bustest.Eventually(t, "the probe ends", func() bool { return len(ended) == 1 })
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
