package edge_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/coder/websocket"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// encrypted is an edge with a certificate at every listener.
type encrypted struct {
	ca                  *certtest.Authority
	pair                certtest.Pair
	http, grpc, metrics string
}

// encrypt serves an edge until the test ends.
func encrypt(t *testing.T, e *edge.Edge) *encrypted {
	t.Helper()
	s := &encrypted{ca: certtest.New(t)}
	s.pair = s.ca.Issue(t, "edge", time.Hour)
	l := listening(t, e, edge.ListenFlags{
		Listen: "127.0.0.1:0", GRPCListen: "127.0.0.1:0", MetricsListen: "127.0.0.1:0",
		TLSCert: s.pair.Cert, TLSKey: s.pair.Key, TLSClientCA: s.ca.File,
	}, false)
	if says := l.String(); !strings.HasPrefix(says, "mcp=https://") || !strings.Contains(says, " metrics=https://") {
		t.Errorf("says %s", says)
	}
	s.http, s.grpc, s.metrics = l.HTTP.Addr().String(), l.GRPC.Addr().String(), l.Metrics.Addr().String()
	return s
}

func (s *encrypted) config() *tls.Config { return &tls.Config{RootCAs: s.ca.Pool()} }

// client speaks HTTP/2, or HTTP/1.1.
func (s *encrypted) client(t *testing.T, version int) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetHTTP1(version == 1)
	protocols.SetHTTP2(version == 2)
	transport := &http.Transport{TLSClientConfig: s.config(), Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: bustest.Patience}
}

// call calls echo.
func (s *encrypted) call(c *http.Client, text string) (*http.Response, error) {
	resp, err := c.Post("https://"+s.http+"/tools/echo", "application/json", strings.NewReader(`{"text":"`+text+`"}`))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(body), text)) {
		err = fmt.Errorf("%d %.300s", resp.StatusCode, body)
	}
	return resp, err
}

func TestTLSAtEveryListener(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := encrypt(t, e)
	for version := 1; version <= 2; version++ {
		resp, err := s.call(s.client(t, version), "hello")
		if err != nil || resp.ProtoMajor != version || resp.TLS.Version != tls.VersionTLS13 {
			t.Errorf("HTTP/%d: %+v %v", version, resp, err)
		}
	}
	if resp, err := s.client(t, 1).Get("http://" + s.http + "/healthz"); err != nil || resp.StatusCode != http.StatusBadRequest || resp.Body.Close() != nil {
		t.Errorf("without TLS: %v %v", resp, err)
	}
	for path, want := range map[string]string{
		s.metrics + "/metrics": "busbar_tls_certificate_expires_seconds 1.", s.http + "/readyz": "tls: the certificate is valid until ",
	} {
		resp, err := s.client(t, 1).Get("https://" + path)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %v", path, body, err)
		}
		_ = resp.Body.Close()
	}
	conn, err := rpc.NewClient(s.grpc, rpc.WithTransportCredentials(credentials.NewTLS(s.config())))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if list, err := gatewayv1.NewGatewayServiceClient(conn).ListTools(t.Context(), &gatewayv1.ListToolsRequest{}); err != nil || len(list.Tools) == 0 {
		t.Errorf("gRPC: %v %v", list, err)
	}
	socket, _, err := client.Dial(t.Context(), "wss://"+s.http+"/ws", &client.DialOptions{HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: s.config(), ForceAttemptHTTP2: true}}})
	if err != nil {
		t.Fatalf("WebSocket: %v", err)
	}
	_ = socket.CloseNow()
}

// A published client, if there is one here.
func TestTLSCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl here")
	}
	e := one(t)
	s := encrypt(t, e)
	anna := s.ca.Issue(t, "anna", time.Hour)
	for version, flag := range map[string]string{"1.1": "--http1.1", "2": "--http2"} {
		out, err := exec.CommandContext(t.Context(), curl, "-sS", flag, "--cacert", s.ca.File, "--cert", anna.Cert, "--key", anna.Key, "-w", " %{http_version} %{http_code}",
			"-H", "Content-Type: application/json", "-d", `{"text":"hello"}`, "https://"+s.http+"/tools/echo").CombinedOutput()
		if err != nil || !strings.Contains(string(out), "hello") || !strings.HasSuffix(string(out), " "+version+" 200") {
			t.Errorf("%s: %s %v", flag, out, err)
		}
	}
}

// The certificate is renewed while clients call, each on new connections: none of them
// notices.
func TestTLSRenewedUnderLoad(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := encrypt(t, e)
	seen := map[string]bool{}
	deadline := time.Now().Add(bustest.Patience)
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for i := 0; len(seen) < 3; i++ {
		<-pace.C
		c := s.client(t, 1+i%2)
		resp, err := s.call(c, "hello")
		if err != nil {
			t.Fatalf("after %d calls: %v", i, err)
		}
		c.CloseIdleConnections()
		name := resp.TLS.PeerCertificates[0].Subject.CommonName
		if !seen[name] {
			seen[name] = true
			// The key first, so that for a while the files do not belong together.
			next := s.ca.Issue(t, fmt.Sprintf("edge%d", len(seen)), time.Hour)
			for from, to := range map[string]string{next.Key: s.pair.Key, next.Cert: s.pair.Cert} {
				if err := os.Rename(from, to); err != nil {
					t.Fatal(err)
				}
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %v were shown", seen)
		}
	}
}

// Nothing follows a request with two lengths inside TLS either.
func TestM6InsideTLS(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := encrypt(t, e)
	conn, err := tls.Dial("tcp", s.http, s.config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(bustest.Patience))
	const head = "POST /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
	_, _ = io.WriteString(conn, head+"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	answers, err := io.ReadAll(conn)
	if n := strings.Count(string(answers), "HTTP/1.1 "); n != 1 {
		t.Errorf("%d answers, %v:\n%s", n, err, answers)
	}
}

// Clients on other machines are served only if they are authenticated, and their traffic
// is encrypted.
func TestListensInPublicOnlyIfSafe(t *testing.T) {
	t.Parallel()
	p := certtest.New(t).Issue(t, "edge", time.Hour)
	certificate := edge.ListenFlags{TLSCert: p.Cert, TLSKey: p.Key}
	proxy := edge.ListenFlags{TLSByProxy: true}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	const public, local = "0.0.0.0:0", "127.0.0.1:0"
	for name, c := range map[string]struct {
		flags               edge.ListenFlags
		http, grpc, metrics string
		authenticated       bool
		says                string
	}{
		"loopback":                        {edge.ListenFlags{}, local, local, local, false, ""},
		"loopback by name":                {edge.ListenFlags{}, "localhost:0", "", "", false, ""},
		"loopback, version 6":             {edge.ListenFlags{}, "[::1]:0", "", "", false, ""},
		"public":                          {edge.ListenFlags{}, public, "", "", false, "--access"},
		"no host":                         {edge.ListenFlags{}, ":0", "", "", false, "docs/guides/secure-the-bus.md"},
		"gRPC in public":                  {edge.ListenFlags{}, local, public, "", false, "--grpc-listen"},
		"metrics in public":               {edge.ListenFlags{}, local, "", public, false, "--metrics-listen"},
		"encrypted, but for anybody":      {certificate, public, "", "", false, "nobody would be authenticated"},
		"a proxy, but for anybody":        {proxy, public, "", "", false, "nobody would be authenticated"},
		"authenticated, but not secret":   {edge.ListenFlags{}, public, "", "", true, "--tls-by-proxy"},
		"gRPC, but not secret":            {edge.ListenFlags{}, local, public, "", true, "--tls-cert"},
		"authenticated and encrypted":     {certificate, public, public, public, true, ""},
		"authenticated, behind a proxy":   {proxy, public, public, public, true, ""},
		"a certificate without key":       {edge.ListenFlags{TLSCert: p.Cert}, local, "", "", true, "go together"},
		"a key without certificate":       {edge.ListenFlags{TLSKey: p.Key}, local, "", "", true, "go together"},
		"authorities without certificate": {edge.ListenFlags{TLSClientCA: p.Cert}, local, "", "", true, "go together"},
		"metrics with a token":            {edge.ListenFlags{MetricsToken: token, TLSByProxy: true}, local, "", public, false, ""},
		"metrics with a token, in plain":  {edge.ListenFlags{MetricsToken: token}, local, "", public, false, "--tls-cert"},
		"no such file":                    {edge.ListenFlags{TLSCert: "/nowhere", TLSKey: p.Key}, local, "", "", true, "--tls-cert"},
		"no address":                      {edge.ListenFlags{}, " ", "", "", true, "--listen"},
		"no such port":                    {edge.ListenFlags{}, local, "127.0.0.1:99999", "", true, "--grpc-listen"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.flags.Listen, c.flags.GRPCListen, c.flags.MetricsListen = c.http, c.grpc, c.metrics
			l, err := c.flags.Open(c.authenticated)
			if err == nil {
				l.Close()
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
		})
	}
}

// seen records the credentials of requests.
type seen struct{ names chan string }

func (s seen) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	name := "nobody"
	if c.Certificate != nil {
		name = c.Certificate.Subject.CommonName
	}
	if c.Secure {
		name += " in secret"
	}
	select {
	case s.names <- name:
	default:
	}
	return gateway.Principal{Name: "x"}, nil
}

// A client's certificate reaches the authenticator through every protocol.
func TestTLSClientCertificate(t *testing.T) {
	t.Parallel()
	w, who := start(t), seen{make(chan string, 1)}
	s := encrypt(t, w.Join(t, edgetest.As(who)).Edge)
	p := s.ca.Issue(t, "anna", time.Hour)
	own, err := tls.LoadX509KeyPair(p.Cert, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	for want, certificates := range map[string][]tls.Certificate{"anna in secret": {own}, "nobody in secret": nil} {
		check := func(how string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", how, err)
			}
			if got := edgetest.Receive(t, "somebody calls", who.names); got != want {
				t.Errorf("%s: %s, want %s", how, got, want)
			}
			select { // asked more than once
			case <-who.names:
			default:
			}
		}
		for version := 1; version <= 2; version++ {
			c := s.client(t, version)
			c.Transport.(*http.Transport).TLSClientConfig.Certificates = certificates
			_, err := s.call(c, "hello")
			check(fmt.Sprintf("HTTP/%d", version), err)
		}
		cfg := s.config()
		cfg.Certificates = certificates
		conn, err := rpc.NewClient(s.grpc, rpc.WithTransportCredentials(credentials.NewTLS(cfg)))
		if err != nil {
			t.Fatal(err)
		}
		_, err = gatewayv1.NewGatewayServiceClient(conn).ListTools(t.Context(), &gatewayv1.ListToolsRequest{})
		check("gRPC", err)
		_ = conn.Close()
	}
}
