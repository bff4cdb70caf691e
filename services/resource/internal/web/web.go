// Package web reads https:// URIs of allowed hosts, at public addresses only. The address is
// checked when it is dialled, so a name cannot move to an internal one. Start reading at New and
// Web.Read.
package web

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/uri"
	"github.com/busbar-mcp/busbar/services/resource/internal/file"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Scheme is the beginning of its URIs.
const Scheme = "https://"

const (
	maxRedirects = 5
	// readTime is the time limit of a read with its redirects.
	//limit:store a read of an `https://` URI, with its redirects | `unavailable`
	readTime = 10 * time.Second
)

// Config has the hosts and addresses that may be read.
type Config struct {
	// Allow lists hosts: example.com, example.com:8443, or *.example.com for its subdomains. The
	// default port is 443.
	Allow []string
	// Permit reports whether an address may be dialled; nil is Public.
	Permit func(netip.AddrPort) bool
	// TLS and Resolver are for tests.
	TLS      *tls.Config
	Resolver *net.Resolver
}

// Web reads https:// URIs.
type Web struct {
	allow  map[string]bool
	client *http.Client
}

// New makes a reader. Close it.
func New(cfg Config) (*Web, error) {
	w := &Web{allow: map[string]bool{}}
	for _, entry := range cfg.Allow {
		name, below := strings.CutPrefix(entry, "*.")
		host, ok := uri.Host(name)
		if !ok {
			return nil, fmt.Errorf("%q is not a valid host to allow; write example.com, example.com:8443 or *.example.com", entry)
		}
		if below {
			host = "*." + host
		}
		w.allow[host] = true
	}
	permit := cfg.Permit
	if permit == nil {
		permit = Public
	}
	dialer := &net.Dialer{
		Timeout: 5 * time.Second, Resolver: cfg.Resolver,
		// The check is on the dialled address, not on one that the name had before.
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil || !permit(at) {
				return errNotPublic
			}
			return nil
		},
	}
	w.client = &http.Client{
		Transport: &http.Transport{
			// No proxy: it would dial for us without this check.
			DialContext: dialer.DialContext, TLSClientConfig: cfg.TLS, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: 5 * time.Second, ResponseHeaderTimeout: 5 * time.Second,
			MaxResponseHeaderBytes: 64 << 10, MaxIdleConns: 16, IdleConnTimeout: 30 * time.Second,
		},
		CheckRedirect: func(to *http.Request, via []*http.Request) error {
			if len(via) > maxRedirects {
				return errRedirects
			}
			_, err := w.page(to.URL.String())
			return err
		},
	}
	return w, nil
}

var (
	errNotPublic = errors.New("the address is not public")
	errRedirects = errors.New("too many redirects")
)

// Close closes idle connections.
func (w *Web) Close() { w.client.CloseIdleConnections() }

// page returns the normal form of a URL, which access policies use too; an error if its host is not
// allowed.
func (w *Web) page(raw string) (string, error) {
	bad := fault.New(fault.InvalidParams, "only https:// URIs without a user can be read")
	if len(raw) < len(Scheme) || !strings.EqualFold(raw[:len(Scheme)], Scheme) {
		return "", bad
	}
	page, err := uri.Web(raw)
	if err != nil {
		return "", bad.Because(err)
	}
	host, _, _ := strings.Cut(page[len(Scheme):], "/")
	allowed := w.allow[host]
	for rest, below := host, true; below && !allowed; {
		if _, rest, below = strings.Cut(rest, "."); below {
			allowed = w.allow["*."+rest]
		}
	}
	if !allowed {
		name, _, _ := strings.Cut(host, ":") // for an IPv6 address, its beginning
		return "", fault.New(fault.Forbidden, "host %s is not among those that may be read", fault.Clip(name))
	}
	return page, nil
}

// Read reads a URI. Errors are Forbidden if its host, or one it redirects to, is not allowed or not
// public; UnknownResource for 404 and 410; TooLarge beyond store.MaxContent; and Unavailable if the
// host does not give a valid answer.
func (w *Web) Read(ctx context.Context, raw string) (out mcp.ResourceContents, err error) {
	page, err := w.page(raw)
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, nil)
	if err != nil {
		return out, fault.New(fault.InvalidParams, "the URI is not a valid https:// URI").Because(err)
	}
	req.Header.Set("User-Agent", "busbar")
	resp, err := w.client.Do(req)
	if err != nil {
		return out, failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
		return out, store.NotFound(raw)
	case resp.StatusCode != http.StatusOK:
		return out, fault.New(fault.Unavailable, "the host answered with status %d", resp.StatusCode)
	}
	// The length that the host states may be wrong, and is the compressed one.
	data, err := io.ReadAll(io.LimitReader(resp.Body, store.MaxContent+1))
	if err != nil {
		return out, failed(err)
	}
	if len(data) > store.MaxContent {
		return out, fault.New(fault.TooLarge, "the resource has more than %d MiB", store.MaxContent>>20)
	}
	mimeType := resp.Header.Get("Content-Type")
	if _, _, err := mime.ParseMediaType(mimeType); err != nil || len(mimeType) > store.MaxName {
		mimeType = ""
	}
	return file.Contents(raw, mimeType, data), nil
}

// failed is an error that does not reveal the address of a connection.
func failed(err error) error {
	var known *fault.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, errNotPublic):
		return fault.New(fault.Forbidden, "the host has no public address").Because(err)
	case errors.Is(err, errRedirects):
		return fault.New(fault.Unavailable, "the host redirects more than %d times", maxRedirects).Because(err)
	}
	return fault.New(fault.Unavailable, "the host does not answer").Because(err)
}
