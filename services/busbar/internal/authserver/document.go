package authserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds on reading the metadata document of a client.
const (
	maxDocument  = 5 << 10 // bytes
	documentTime = 3 * time.Second
	// maxReading is how many are read at once.
	maxReading = 8
)

// documents reads the documents that clients with a URL for an ID publish there.
// Nothing is kept of them.
type documents struct {
	inside, outside, through *http.Client
	reading                  chan struct{}
}

func newDocuments() *documents {
	d := &documents{inside: reader(here), outside: reader(public), reading: make(chan struct{}, maxReading)}
	// A proxy is inside, and decides where it goes.
	d.through = reader(func(netip.Addr) bool { return true })
	d.through.Transport.(*http.Transport).Proxy = http.ProxyFromEnvironment
	return d
}

// read reads the document of a client, from the URL that is its ID: somebody else's
// choice, so from loopback only where the URL says loopback, from no other network
// inside, and without following it anywhere.
func (d *documents) read(ctx context.Context, id string) (*client, *failure) {
	u, err := url.Parse(id)
	local := err == nil && loopback(u.Hostname())
	if err != nil || !identifies(u, local) {
		return nil, fail("invalid_client", "a client_id that is a URL is https, or http on loopback, and has a path, without dots, user or fragment")
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return nil, fail("temporarily_unavailable", "documents of other clients are being read")
	}
	raw, err := d.get(ctx, id, local)
	if err != nil {
		return nil, fail("invalid_client", "the client's metadata document: "+err.Error())
	}
	var doc struct {
		ID     string `json:"client_id"`
		Secret string `json:"client_secret"`
		client `json:",inline"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fail("invalid_client", "the client's metadata document is no JSON object of client metadata")
	}
	switch {
	case doc.ID != id:
		return nil, fail("invalid_client", "the client's metadata document is of another client_id")
	case doc.Secret != "":
		return nil, fail("invalid_client", "the client's metadata document has a secret, which a public document cannot keep")
	case doc.AuthMethod != "" && doc.AuthMethod != "none":
		return nil, fail("invalid_client", "token_endpoint_auth_method "+doc.AuthMethod+" is not known here: none is")
	}
	if f := doc.check(); f != nil {
		return nil, fail("invalid_client", "the client's metadata document: "+f.Text)
	}
	if doc.Name == "" {
		doc.Name = u.Host
	}
	return &doc.client, nil
}

// identifies reports whether a URL may be a client's ID.
func identifies(u *url.URL, local bool) bool {
	return (u.Scheme == "https" || u.Scheme == "http" && local) && u.User == nil && u.Fragment == "" &&
		len(u.Path) > 1 && path.Clean(u.Path) == strings.TrimSuffix(u.Path, "/") && u.Opaque == ""
}

// get fails with what the client's developer may know.
func (d *documents) get(ctx context.Context, from string, local bool) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	r.Header.Set("Accept", "application/json")
	c := d.outside
	if proxy, err := http.ProxyFromEnvironment(r); local {
		c = d.inside
	} else if err != nil || proxy != nil {
		c = d.through
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, errors.New("its host does not answer, or is inside a network")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its host answers %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, errors.New("its content type is not JSON")
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, errors.New("it breaks off, or takes longer than 3 s")
	case len(raw) > maxDocument:
		return nil, errors.New("it is larger than 5 KiB")
	}
	return raw, nil
}

// reader is an HTTP client that reads from addresses that allowed allows, whatever
// names stand for them.
func reader(allowed func(netip.Addr) bool) *http.Client {
	dialer := net.Dialer{Timeout: documentTime, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(to.Addr().Unmap()) {
			return errors.New("an address that no document is read from")
		}
		return nil
	}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: documentTime,
			DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func here(ip netip.Addr) bool { return ip.IsLoopback() }

func public(ip netip.Addr) bool {
	return ip.IsGlobalUnicast() && !ip.IsPrivate() && !shared.Contains(ip)
}

// shared are the addresses of carriers' networks (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")
