package oauth

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
)

const sha = crypto.SHA256

const (
	// maxDocument is the largest answer of an issuer, in bytes.
	maxDocument = 256 << 10
	// metadataTime is how long its metadata is used before it is read again.
	metadataTime = time.Hour
)

// source reads the documents of an issuer.
type source struct {
	issuer, jwks string

	mu   sync.Mutex
	meta *metadata
	read time.Time
}

// metadata is the used part of RFC 8414 metadata.
type metadata struct {
	Issuer        string `json:"issuer"`
	JWKS          string `json:"jwks_uri"`
	Introspection string `json:"introspection_endpoint"`
}

func newSource(issuer, jwks string) *source { return &source{issuer: issuer, jwks: jwks} }

// keys reads the issuer's keys.
func (s *source) keys(ctx context.Context) (map[string][]*key, error) {
	at := s.jwks
	if at == "" {
		meta, err := s.metadata(ctx)
		if err != nil {
			return nil, err
		}
		at = meta.JWKS
	}
	raw, err := s.get(ctx, at)
	if err == nil {
		var keys map[string][]*key
		if keys, err = parseKeys(raw); err == nil {
			return keys, nil
		}
	}
	s.forget() // the keys may have moved
	return nil, fmt.Errorf("keys of %s: %w", s.issuer, err)
}

func (s *source) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meta = nil
}

// metadata finds the issuer's metadata at the place of RFC 8414 or of OpenID Connect.
func (s *source) metadata(ctx context.Context) (*metadata, error) {
	s.mu.Lock()
	meta, fresh := s.meta, time.Since(s.read) < metadataTime
	s.mu.Unlock()
	if meta != nil && fresh {
		return meta, nil
	}
	var errs error
	for _, at := range wellKnown(s.issuer) {
		raw, err := s.get(ctx, at)
		meta = &metadata{}
		if err == nil {
			err = json.Unmarshal(raw, meta)
		}
		switch {
		case err != nil:
		case meta.Issuer != s.issuer:
			err = fmt.Errorf("%s belongs to another issuer", at)
		default:
			err = checkURL(meta.JWKS)
		}
		if err == nil {
			s.mu.Lock()
			s.meta, s.read = meta, time.Now()
			s.mu.Unlock()
			return meta, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, fmt.Errorf("metadata of %s: %w", s.issuer, errs)
}

// wellKnown returns the possible URLs of an issuer's metadata, in the order of the MCP specification.
func wellKnown(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	base, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	all := []string{base + "/.well-known/oauth-authorization-server" + path, base + "/.well-known/openid-configuration" + path}
	if path != "" {
		all = append(all, base+path+"/.well-known/openid-configuration")
	}
	return all
}

// get reads a document of the issuer: in 3 s, up to 256 KiB, and only from the requested host.
func (s *source) get(ctx context.Context, at string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	return s.do(r)
}

func (s *source) do(r *http.Request) ([]byte, error) {
	resp, err := s.client(r).Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s", r.URL.Host, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("the answer of %s is larger than %d bytes", r.URL.Host, maxDocument)
	}
	return raw, err
}

// client returns the HTTP client for a request. A configured host may be inside the network; a host that
// only a document names must be outside.
func (s *source) client(r *http.Request) *http.Client {
	for _, configured := range []string{s.issuer, s.jwks} {
		if u, err := url.Parse(configured); err == nil && strings.EqualFold(u.Host, r.URL.Host) {
			return anywhere
		}
	}
	if through, err := http.ProxyFromEnvironment(r); err != nil || through != nil {
		return anywhere // the proxy is inside the network, and decides
	}
	return outside
}

var (
	anywhere = newClient(nil)
	outside  = newClient(public)
)

func newClient(control func(network, address string, c syscall.RawConn) error) *http.Client {
	dialer := &net.Dialer{Timeout: readTime, Control: control}
	return &http.Client{
		Timeout: readTime,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSHandshakeTimeout: readTime, DisableKeepAlives: true, MaxResponseHeaderBytes: 32 << 10,
		},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if len(via) > 2 || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
				return errors.New("redirects elsewhere")
			}
			return nil
		},
	}
}

// public refuses addresses that only this network or machine can reach.
func public(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap()
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || shared.Contains(ip) {
		return errors.New("it is a private address, which is allowed only for configured hosts")
	}
	return nil
}

// shared is the address range of carriers' networks (RFC 6598).
var shared = netip.MustParsePrefix("100.64.0.0/10")
