package client

import (
	"context"
	"crypto/x509"
	"io"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
)

// maxReady bounds what an edge says about itself, bytes.
const maxReady = 64 << 10

// Readiness is what an edge says about itself.
type Readiness struct {
	Ready bool
	// Said is a line for each thing that the edge needs, after its verdict.
	Said string
	// Version is empty where the edge does not tell everybody.
	Version string
	// Clock is the edge's, in whole seconds, when it answered; zero for none. Asked and
	// Answered are by the clock of this machine.
	Clock, Asked, Answered time.Time
	// Certificate is what the edge shows; nil without TLS.
	Certificate *x509.Certificate
}

// AskReady asks an edge whether it can carry calls.
func AskReady(ctx context.Context, o Options) (Readiness, error) {
	r := newRun(o, io.Discard, io.Discard)
	found, err := r.ready(ctx)
	if err == nil {
		found.Version = r.version(ctx)
	}
	return found, err
}

func (r *run) ready(ctx context.Context) (Readiness, error) {
	req, err := r.edge.plain(ctx, http.MethodGet, nil, "readyz")
	if err != nil {
		return Readiness{}, err
	}
	found := Readiness{Asked: time.Now()}
	lost := func(err error) error { return &TransportError{URL: r.edge.shownURL(), Err: err} }
	resp, err := r.edge.httpClient().Do(req)
	if err != nil {
		return Readiness{}, lost(err)
	}
	defer func() { _ = resp.Body.Close() }()
	found.Answered = time.Now()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxReady))
	if err != nil {
		return Readiness{}, lost(err)
	}
	switch resp.StatusCode {
	case http.StatusOK:
		found.Ready = true
	case http.StatusServiceUnavailable:
	default:
		return Readiness{}, &ProtocolError{Message: "/readyz answered HTTP " + resp.Status + ", as no edge does"}
	}
	found.Said = terminal.SafeText(string(said))
	found.Clock, _ = http.ParseTime(resp.Header.Get("Date")) // zero for none
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		found.Certificate = resp.TLS.PeerCertificates[0]
	}
	return found, nil
}

// version is what an edge says on the page at /, empty where it tells nobody.
func (r *run) version(ctx context.Context) string {
	req, err := r.edge.plain(ctx, http.MethodGet, nil)
	if err != nil {
		return ""
	}
	req.Header.Set("Accept", "application/json")
	resp, err := r.edge.httpClient().Do(req)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxReady))
	var front struct {
		Name    string `json:"name"`
		Version string `json:"version"`
	}
	if err != nil || resp.StatusCode != http.StatusOK || decode(said, &front) != nil || front.Name != "busbar" {
		return ""
	}
	return terminal.SafeLine(front.Version)
}

// RunReady is `busbar ready`: it prints what an edge says about itself. It returns
// ExitOK if the edge can carry calls, ExitRefused if it says that it cannot.
func RunReady(ctx context.Context, o Options, stdout, stderr io.Writer) int {
	r := newRun(o, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	found, err := r.ready(ctx)
	if err != nil {
		return r.fail(err, "")
	}
	if !found.Ready {
		return r.print(found.Said, ExitRefused)
	}
	return r.print(found.Said, ExitOK)
}
