package client

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// roundTrip is a transport without a network.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// written tells the client that its request is on the way.
func written(r *http.Request) { httptrace.ContextClientTrace(r.Context()).WroteHeaders() }

func list(id string) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[` + echo + `]}}`)),
	}
}

func TestRunCallWithoutAnswer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		listed bool // the list arrives; the call does not
		trip   roundTrip
		stderr []string
	}{
		{"refused", false, func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}, []string{"error: no edge at http://edge:1/mcp; start one with `busbar dev`, or give --url\n", "executed: no"}},
		{"no such host", false, func(*http.Request) (*http.Response, error) {
			return nil, &net.OpError{Op: "dial", Err: &net.DNSError{Name: "edge", IsNotFound: true}}
		}, []string{`no host "edge"`}},
		{"cannot connect in time", false, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, []string{"cannot connect to http://edge:1/mcp in time", "executed: no"}},
		{"no answer in time", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, []string{"no answer from http://edge:1/mcp in time", "executed: unknown - it may have run"}},
		{"connection lost", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			return nil, io.EOF
		}, []string{"http://edge:1/mcp closed the connection before it answered", "executed: unknown"}},
		{"reset", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			return nil, &net.OpError{Op: "read", Err: syscall.ECONNRESET}
		}, []string{"cannot talk to http://edge:1/mcp: read: connection reset", "executed: unknown"}},
		{"stream cut off", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: io.NopCloser(strings.NewReader("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n")),
			}, nil
		}, []string{"closed the connection before it answered", "executed: unknown"}},
		{"stream stalls", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: stalled{r},
			}, nil
		}, []string{"no answer from http://edge:1/mcp in time", "executed: unknown"}},
		{"event is not JSON", true, func(r *http.Request) (*http.Response, error) {
			written(r)
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: io.NopCloser(strings.NewReader("data: hello\n\n")),
			}, nil
		}, []string{"an event is not a JSON-RPC message", "executed: unknown"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				trip := roundTrip(func(r *http.Request) (*http.Response, error) {
					if tt.listed && r.Header.Get("Mcp-Method") == "tools/list" {
						written(r)
						return list("1"), nil
					}
					return tt.trip(r)
				})
				opts := Options{URL: "edge:1", Timeout: 30 * time.Second, HTTP: &http.Client{Transport: trip}}
				o := runCall(t, CallOptions{Options: opts, Name: "echo"}, "")
				o.check(t, ExitTransport, "", tt.stderr...)
			})
		})
	}
}

// stalled is a body that never goes on.
type stalled struct{ r *http.Request }

func (s stalled) Read([]byte) (int, error) {
	<-s.r.Context().Done()
	return 0, errors.New("read on closed body")
}

func (stalled) Close() error { return nil }

// Nothing listens at the address of a closed listener.
func TestRunToolsConnectionRefused(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	url := "http://user:secret@" + l.Addr().String()
	o := runTools(t, Options{URL: url})
	o.check(t, ExitTransport, "", "error: no edge at http://user:xxxxx@"+l.Addr().String()+"/mcp; start one with `busbar dev`, or give --url\n")
}
