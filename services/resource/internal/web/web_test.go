package web_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/resource/internal/web"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// host is a server on loopback, which the readers of a test may reach unless
// they ask web.Public.
func host(t *testing.T, h http.HandlerFunc) (srv *httptest.Server, reader func(permit func(netip.AddrPort) bool, allow ...string) *web.Web, port string) {
	t.Helper()
	srv = httptest.NewTLSServer(h)
	t.Cleanup(srv.Close)
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return srv, func(permit func(netip.AddrPort) bool, allow ...string) *web.Web {
		w, err := web.New(web.Config{Allow: allow, Permit: permit, TLS: &tls.Config{RootCAs: pool}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Close)
		return w
	}, u.Port()
}

func anywhere(netip.AddrPort) bool { return true }

func TestRead(t *testing.T) {
	t.Parallel()
	var port string
	srv, reader, port := host(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/text":
			w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
			_, _ = w.Write([]byte("# Hello"))
		case "/blob":
			_, _ = w.Write([]byte{0x89, 'P', 'N', 'G', 0, 1})
		case "/none":
			http.NotFound(w, r)
		case "/broken":
			w.WriteHeader(500)
			_, _ = w.Write([]byte("secret"))
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/to":
			http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusFound)
		case "/huge":
			for range store.MaxContent/1024 + 1 {
				_, _ = w.Write(make([]byte, 1024))
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range store.MaxContent/65536 + 1 {
				_, _ = z.Write(make([]byte, 65536))
			}
			_ = z.Close()
		case "/cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		}
	})
	w := reader(anywhere, "127.0.0.1:"+port, "example.com:"+port)
	at := srv.URL
	c, err := w.Read(t.Context(), at+"/text")
	if err != nil || c.Text != "# Hello" || c.MIMEType != "text/markdown; charset=utf-8" || c.URI != at+"/text" {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = w.Read(t.Context(), at+"/blob"); err != nil || len(c.Blob) != 6 {
		t.Errorf("%+v %v", c, err)
	}
	if c, err = w.Read(t.Context(), at+"/to?to=/text"); err != nil || c.Text != "# Hello" {
		t.Errorf("a redirect within the host: %+v %v", c, err)
	}
	for path, reason := range map[string]fault.Reason{
		"/none": fault.UnknownResource, "/broken": fault.Unavailable, "/loop": fault.Unavailable, "/cut": fault.Unavailable,
		"/huge": fault.TooLarge, "/bomb": fault.TooLarge,
		"/to?to=https://localhost:" + port + "/text": fault.Forbidden, "/to?to=http://127.0.0.1:" + port + "/text": fault.InvalidParams,
		"/to?to=file:///etc/passwd": fault.InvalidParams, "/to?to=gopher://127.0.0.1/": fault.InvalidParams,
		"/to?to=https://127.0.0.1:1/": fault.Forbidden, "/to?to=https://169.254.169.254/latest": fault.Forbidden,
	} {
		_, err := w.Read(t.Context(), at+path)
		f := fault.From(err)
		if err == nil || f.Reason != reason || reason != fault.UnknownResource && strings.Contains(f.Message, port) || strings.Contains(f.Message, "secret") {
			t.Errorf("%s: %v, want %s", path, err, reason)
		}
	}
	for uri, reason := range map[string]fault.Reason{
		"http://127.0.0.1:" + port: fault.InvalidParams, "https://u:p@127.0.0.1:" + port: fault.InvalidParams, "https://": fault.InvalidParams, "https:opaque": fault.InvalidParams,
		"file:///etc/passwd": fault.InvalidParams, "gopher://127.0.0.1": fault.InvalidParams, "https://%zz": fault.InvalidParams, "https://127.0.0.1:" + port + ":1": fault.InvalidParams,
		"https://localhost:" + port: fault.Forbidden, "https://127.0.0.1": fault.Forbidden, "https://2130706433:" + port: fault.InvalidParams, "https://0x7f000001:" + port: fault.InvalidParams,
		"https://0177.0.0.1:" + port: fault.InvalidParams, "https://[::1]:" + port: fault.Forbidden, "https://example.com.evil:" + port: fault.Forbidden,
	} {
		if _, err := w.Read(t.Context(), uri); !fault.Is(err, reason) {
			t.Errorf("%s: %v, want %s", uri, err, reason)
		}
	}
}

// TestNormalForm: all spellings of a page are one request, and the contents keep the URI
// of the caller.
func TestNormalForm(t *testing.T) {
	t.Parallel()
	_, reader, port := host(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, r.RequestURI) })
	w := reader(anywhere, "127.0.0.1:"+port)
	for spelling, want := range map[string]string{
		"127.0.0.1:" + port: "/", "127.0.0.1:0" + port + "/a/../b/.": "/b/", "127.0.0.1.:" + port + "/%62?#c": "/b", "[::ffff:127.0.0.1]:" + port + "//b%2f?a=%62": "//b%2F?a=%62",
	} {
		c, err := w.Read(t.Context(), "HTTPS://"+spelling)
		if err != nil || c.Text != want || c.URI != "HTTPS://"+spelling {
			t.Errorf("%s: %+v %v, want %s", spelling, c, err, want)
		}
	}
}

// TestInside: being allowed does not help an address that is not public.
func TestInside(t *testing.T) {
	t.Parallel()
	var hits atomic.Int64
	_, reader, port := host(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	inside := []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "169.254.169.254", "10.0.0.1", "100.64.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]"}
	var allow []string
	for _, h := range inside {
		allow = append(allow, h+":"+port)
	}
	w := reader(nil, allow...)
	for _, h := range append(inside, "2130706433", "0x7f000001", "0177.0.0.1", "127.1") {
		_, err := w.Read(t.Context(), "https://"+h+":"+port+"/")
		if f := fault.From(err); err == nil || !slices.Contains([]fault.Reason{fault.Forbidden, fault.Unavailable, fault.InvalidParams}, f.Reason) || strings.Contains(f.Message, "127") {
			t.Errorf("%s: %v", h, err)
		}
	}
	if hits.Load() != 0 {
		t.Errorf("%d requests arrived", hits.Load())
	}
}

// TestNameThatMoves: a name whose address changes from a public to an internal one is refused when
// it is dialled.
func TestNameThatMoves(t *testing.T) {
	t.Parallel()
	var asked []netip.Addr
	errDialled := errors.New("a connection to the resolver of the test")
	w, err := web.New(web.Config{
		Allow: []string{"localhost"},
		Permit: func(at netip.AddrPort) bool {
			asked = append(asked, at.Addr())
			return web.Public(at)
		},
		Resolver: &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errDialled }},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// localhost stands for any name: the hosts file has its present address.
	if _, err := w.Read(t.Context(), "https://localhost/"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	if len(asked) == 0 || !asked[0].IsLoopback() {
		t.Errorf("asked about %v", asked)
	}
}

func TestPublic(t *testing.T) {
	t.Parallel()
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1", "2a00::1"} {
		if !web.Public(netip.AddrPortFrom(netip.MustParseAddr(a), 443)) {
			t.Errorf("%s is public", a)
		}
	}
	for _, a := range []string{
		"0.0.0.0", "0.1.2.3", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "fc00::1", "fd12::1", "fe80::1", "fe80::1%eth0", "fec0::1", "ff02::1",
	} {
		if web.Public(netip.AddrPortFrom(netip.MustParseAddr(a), 443)) {
			t.Errorf("%s is not public", a)
		}
	}
	if web.Public(netip.AddrPort{}) {
		t.Error("no address is public")
	}
}

func TestAllow(t *testing.T) {
	t.Parallel()
	_, reader, port := host(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "x") })
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing is dialled
	w := reader(anywhere, "Example.com:"+port, "*.sub.example:"+port)
	for h, reason := range map[string]fault.Reason{
		"EXAMPLE.com": "", "a.sub.example": "", "a.b.sub.example": "",
		"sub.example": fault.Forbidden, "xsub.example": fault.Forbidden, "www.example.com": fault.Forbidden, "example.com.": "",
	} {
		_, err := w.Read(ctx, "https://"+h+":"+port+"/")
		if refused := fault.Is(err, fault.Forbidden) && strings.Contains(err.Error(), "not among"); refused != (reason == fault.Forbidden) {
			t.Errorf("%s: %v", h, err)
		}
	}
	for _, bad := range []string{"", "*", "a.*", "https://example.com", "a b", "u@example.com", ":443", "example.com:0", "example.com:65536", "127.1"} {
		if _, err := web.New(web.Config{Allow: []string{bad}}); err == nil {
			t.Errorf("%q was taken for a host", bad)
		}
	}
}

func FuzzRead(f *testing.F) {
	w, err := web.New(web.Config{Allow: []string{"example.com"}, Permit: func(netip.AddrPort) bool { return false }})
	if err != nil {
		f.Fatal(err)
	}
	for _, uri := range []string{"https://example.com/", "https://u@example.com", "https://[::1]", "file:///x", "https://example.com@evil"} {
		f.Add(uri)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nothing is dialled
	f.Fuzz(func(t *testing.T, uri string) {
		if _, err := w.Read(ctx, uri); err == nil {
			t.Errorf("%q was read", uri)
		}
	})
}
