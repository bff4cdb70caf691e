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

// Limits of reading the metadata document of a client.
const (
	maxDocument  = 5 << 10 // bytes
	documentTime = 3 * time.Second
	// maxReading is how many documents are read concurrently.
	maxReading = 8
)

// documents reads the documents of clients whose ID is a URL. It keeps nothing.
type documents struct {
	inside, outside, through *http.Client
	reading                  chan struct{}
}

func newDocuments() *documents {
	d := &documents{inside: reader(here), outside: reader(public), reading: make(chan struct{}, maxReading)}
	// A proxy is inside the network, and decides where requests may go.
	d.through = reader(func(netip.Addr) bool { return true })
	d.through.Transport.(*http.Transport).Proxy = http.ProxyFromEnvironment
	return d
}

// read reads the document of a client from the URL that is its ID. Somebody else chose that URL, so
// loopback is allowed only if the URL says loopback, no other private network is allowed, and redirects
// are not followed.
func (d *documents) read(ctx context.Context, id string) (*client, *failure) {
	u, err := url.Parse(id)
	local := err == nil && loopback(u.Hostname())
	if err != nil || !identifies(u, local) {
		return nil, fail("invalid_client", "a client_id that is a URL must be https, or http on loopback, with a path without dots, and no user or fragment")
	}
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return nil, fail("temporarily_unavailable", "too many documents of other clients are being read; try again shortly")
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
		return nil, fail("invalid_client", "the client's metadata document is not a JSON object of client metadata")
	}
	switch {
	case doc.ID != id:
		return nil, fail("invalid_client", "the client's metadata document has another client_id")
	case doc.Secret != "":
		return nil, fail("invalid_client", "the client's metadata document contains a secret, but the document is public; remove it")
	case doc.AuthMethod != "" && doc.AuthMethod != "none":
		return nil, fail("invalid_client", "token_endpoint_auth_method "+doc.AuthMethod+" is not supported; use none")
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

// get reads a URL. Its errors are for the client's developer.
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
		return nil, errors.New("its host does not answer, or has a private address")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("its host answered with status %d", resp.StatusCode)
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return nil, errors.New("its content type is not JSON")
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return nil, errors.New("the answer was incomplete, or took longer than 3 s")
	case len(raw) > maxDocument:
		return nil, errors.New("it is larger than 5 KiB")
	}
	return raw, nil
}

// reader returns an HTTP client that connects only to addresses that allowed accepts, whatever the host
// name.
func reader(allowed func(netip.Addr) bool) *http.Client {
	dialer := net.Dialer{Timeout: documentTime, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(to.Addr().Unmap()) {
			return errors.New("documents are not read from this address")
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

// shared is the address range of carriers' networks (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")
