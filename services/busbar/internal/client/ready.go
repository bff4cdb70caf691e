package client

import (
	"context"
	"io"
	"net/http"
)

// maxReady bounds what an edge says about itself, bytes.
const maxReady = 64 << 10

// RunReady is `busbar ready`: it prints what an edge says about itself. It returns
// ExitOK if the edge can carry calls, ExitRefused if it says that it cannot.
func RunReady(ctx context.Context, o Options, stdout, stderr io.Writer) int {
	r := newRun(o, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	req, err := r.edge.plain(ctx, http.MethodGet, nil, "readyz")
	if err != nil {
		return r.fail(err, "")
	}
	lost := func(err error) int { return r.fail(&TransportError{URL: r.edge.shownURL(), Err: err}, "") }
	resp, err := r.edge.httpClient().Do(req)
	if err != nil {
		return lost(err)
	}
	defer func() { _ = resp.Body.Close() }()
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxReady))
	if err != nil {
		return lost(err)
	}
	code := ExitOK
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		code = ExitRefused
	default:
		return r.fail(&ProtocolError{Message: "/readyz answered HTTP " + resp.Status + ", as no edge does"}, "")
	}
	return r.print(safeText(string(said)), code)
}
