package door

import (
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// errContent is the refusal of a body of the wrong type.
var errContent error = refused{fault.New(fault.InvalidRequest, "the body must be sent as Content-Type: application/json, in UTF-8 and without Content-Encoding"), http.StatusUnsupportedMediaType}

// CheckContent returns nil for plain UTF-8 JSON. For other bodies, the error says what to
// send.
func CheckContent(h http.Header) error {
	for _, e := range h["Content-Encoding"] {
		if e != "" && !strings.EqualFold(e, "identity") {
			return errContent
		}
	}
	types := h["Content-Type"]
	if len(types) != 1 {
		return errContent
	}
	if types[0] == "application/json" {
		return nil
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset := params["charset"]
	if err != nil || media != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return errContent
	}
	return nil
}

// Toolset is the wildcard of the patterns of paths that name a toolset.
const Toolset = "toolset"

// ThroughToolset is the pattern of a path that is followed by the name of a toolset.
func ThroughToolset(path string) string { return path + "/{" + Toolset + "}" }

// Credentials are the credentials of a request. Tokens outside of headers, above all in
// the query, are not read.
func Credentials(r *http.Request) gateway.Credentials {
	const scheme = "bearer "
	c := gateway.Credentials{
		Address: listener.HostOf(r.RemoteAddr), Header: r.Header, Method: r.Method, Host: r.Host, Path: r.URL.EscapedPath(), Secure: r.TLS != nil,
		Toolset: r.PathValue(Toolset),
	}
	if c.Secure && len(r.TLS.PeerCertificates) > 0 {
		c.Certificate = r.TLS.PeerCertificates[0]
	}
	if r.URL.RawQuery != "" {
		c.Search = r.URL.Query().Get("tools") == "search"
	}
	if v := r.Header.Get("Authorization"); len(v) > len(scheme) && strings.EqualFold(v[:len(scheme)], scheme) {
		c.Bearer = strings.TrimSpace(v[len(scheme):])
	}
	return c
}

// bodyTime is how long a client may take to send a body.
//
//limit:process time to send the body of a request
const bodyTime = 10 * time.Second

// maxDrained is how much of a body that is too large is read and discarded, within
// drainTime: a client that is still writing might never see the answer.
const (
	maxDrained = 8 << 20
	drainTime  = 2 * time.Second
)

// Drain reads the rest of a refused body, so that the connection can be used again, or
// the client at least reads the answer.
func Drain(w http.ResponseWriter, r *http.Request) {
	// Over HTTP/2 the connection goes on without that, and a client that waits for "100
	// Continue" has sent nothing yet.
	if r.ProtoMajor < 2 && r.Header.Get("Expect") == "" {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
	}
}

// ReadBody reads a body of up to limit bytes, within ten seconds. The error is a
// *fault.Error.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	tooLarge := func() error {
		if r.ProtoMajor < 2 {
			w.Header().Set("Connection", "close")
		}
		Drain(w, r)
		return fault.New(fault.TooLarge, "the body is larger than %d bytes", limit)
	}
	// A deadline is set only when the time has passed: nearly every body is here already,
	// and a timer costs less than two deadlines. Not every writer has deadlines (a test's
	// recorder does not); the server's writers do. A stream of HTTP/2 is not touched any
	// more when its request is over.
	if r.ProtoMajor < 2 {
		slow := time.AfterFunc(bodyTime, func() { _ = http.NewResponseController(w).SetReadDeadline(time.Now()) })
		defer slow.Stop()
	} else {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLarge()
	}
	if n := int(r.ContentLength); n >= 0 {
		body, err := readFull(r.Body, n)
		if err != nil {
			return nil, fault.New(fault.InvalidRequest, "the body ended early").Because(err)
		}
		return body, nil
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	switch {
	case len(body) > limit:
		return nil, tooLarge()
	case err != nil:
		return nil, fault.New(fault.InvalidRequest, "the body ended early").Because(err)
	}
	return body, nil
}

// believed is the length up to which a client's announcement of a body is believed.
const believed = 64 << 10

// readFull reads n bytes. It allocates only for bytes that the client has sent: a client
// may announce many bodies at once.
func readFull(in io.Reader, n int) ([]byte, error) {
	body := make([]byte, min(n, believed))
	read, err := io.ReadFull(in, body)
	for err == nil && read < n {
		body = append(body, make([]byte, min(n-read, read))...)
		var more int
		more, err = io.ReadFull(in, body[read:])
		read += more
	}
	return body, err
}
