package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/go-json-experiment/json/jsontext"
)

// UsageError is a mistake in what the user gave: nothing was sent.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// RejectedToolError refuses to call a tool whose definition is invalid: its
// headers could not be made.
type RejectedToolError struct{ Name, Why string }

func (e *RejectedToolError) Error() string {
	return fmt.Sprintf("tool %q has an invalid definition: %s", e.Name, e.Why)
}

// RPCError is an error that the edge answers with.
type RPCError struct {
	// Code of JSON-RPC, from a server that gives no reason, or 0.
	Code    int64
	Message string
	// Data are further facts, as received; nil for none.
	Data jsontext.Value
	// Reason is the edge's, or what the code stands for.
	Reason fault.Reason
	// Executed is the edge's, or what the code implies.
	Executed fault.Executed
	// RetryAfter is how long to wait before calling again; 0 is unknown.
	RetryAfter time.Duration
}

func (e *RPCError) Error() string { return e.Message }

// reasons are what the codes stand for in an error without data.reason.
var reasons = map[int64]fault.Reason{
	mcp.CodeParseError:         fault.ParseError,
	mcp.CodeInvalidRequest:     fault.InvalidRequest,
	mcp.CodeMethodNotFound:     fault.MethodNotFound,
	mcp.CodeInvalidParams:      fault.InvalidParams,
	mcp.CodeHeaderMismatch:     fault.HeaderMismatch,
	mcp.CodeMissingCapability:  fault.MissingCapability,
	mcp.CodeUnsupportedVersion: fault.UnsupportedVersion,
	mcp.CodeUnauthenticated:    fault.Unauthenticated,
	mcp.CodeForbidden:          fault.Forbidden,
	mcp.CodeConflict:           fault.Conflict,
	mcp.CodeRateLimited:        fault.RateLimited,
}

func decodeRPCError(raw []byte, retryAfter string) (*RPCError, error) {
	var wire struct {
		Code    *int64         `json:"code"`
		Message string         `json:"message"`
		Data    jsontext.Value `json:"data"`
	}
	if err := decode(raw, &wire); err != nil {
		return nil, err
	}
	if wire.Code == nil {
		return nil, errors.New("the error has no code")
	}
	e := &RPCError{Code: *wire.Code, Message: wire.Message, Data: wire.Data}
	members := map[string]jsontext.Value{}
	if e.Data.Kind() == '{' {
		if err := decode(e.Data, &members); err != nil {
			return nil, err
		}
	}
	// Members of another type than Busbar's are another server's own.
	e.Reason, _ = member[fault.Reason](members, "reason")
	e.Executed, _ = member[fault.Executed](members, "executed")
	if ms, ok := member[int64](members, "retryAfterMs"); ok {
		e.RetryAfter = time.Duration(ms) * time.Millisecond
	} else if s, err := strconv.Atoi(retryAfter); err == nil {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	known := reasons[e.Code]
	if e.Reason == "" {
		e.Reason = known
	} else {
		e.Code = 0
	}
	switch e.Executed {
	case fault.No, fault.Yes, fault.Unknown:
	default:
		e.Executed = fault.Unknown
		if known != "" {
			e.Executed = fault.No // these codes say that the request was refused
		}
	}
	return e, nil
}

func member[T any](members map[string]jsontext.Value, name string) (T, bool) {
	var v T
	raw, has := members[name]
	return v, has && decode(raw, &v) == nil
}

// TransportError means that no answer came.
type TransportError struct {
	URL string
	// Method of MCP that was to be carried out; empty for none.
	Method string
	// Sent is whether the edge may have seen the request: if not, nothing ran.
	Sent bool
	Err  error
}

func (e *TransportError) Unwrap() error { return e.Err }

func (e *TransportError) Error() string {
	var (
		dial *net.OpError
		dns  *net.DNSError
		wrap *url.Error
		slow net.Error
	)
	switch {
	case errors.Is(e.Err, context.Canceled):
		return "interrupted"
	case errors.As(e.Err, &slow) && slow.Timeout() && e.Sent:
		return "no answer from " + e.URL + " in time"
	case errors.As(e.Err, &slow) && slow.Timeout():
		return "cannot connect to " + e.URL + " in time"
	case errors.As(e.Err, &dns):
		return fmt.Sprintf("no host %q; give another --url", dns.Name)
	case errors.As(e.Err, &dial) && dial.Op == "dial":
		return "no edge at " + e.URL + "; start one with `busbar dev`, or give --url"
	case errors.Is(e.Err, io.ErrUnexpectedEOF), errors.Is(e.Err, io.EOF):
		return e.URL + " closed the connection before it answered"
	case errors.As(e.Err, &wrap):
		return "cannot talk to " + e.URL + ": " + wrap.Err.Error() // without the URL again
	}
	return "cannot talk to " + e.URL + ": " + e.Err.Error()
}

// next is what to do about it; empty where nothing is certain.
func (e *TransportError) next() string {
	var (
		unknown  x509.UnknownAuthorityError
		name     x509.HostnameError
		invalid  x509.CertificateInvalidError
		plain    tls.RecordHeaderError
		answered *net.OpError
	)
	switch {
	case errors.As(e.Err, &unknown):
		return "name the authority that signed the edge's certificate with --ca, if you trust it"
	case errors.As(e.Err, &name):
		return "give a --url with a name that the edge's certificate is for"
	case errors.As(e.Err, &invalid):
		return "whoever runs the edge has to renew its certificate; --ca names other authorities to trust"
	case errors.As(e.Err, &plain), strings.Contains(e.Err.Error(), "HTTP response to HTTPS client"): // of net/http, without a type
		return "give the --url with http://, if it is this machine's"
	case errors.As(e.Err, &answered) && answered.Op == "remote error":
		return notTaken
	}
	return ""
}

const notTaken = "the edge does not take the certificate of --cert: it has to be good now, for clients, and signed by an authority of the edge's --tls-client-ca"

// cut reports whether the connection was ended without a word: with TLS 1.3 a
// certificate is refused after the client has begun to send, and why is often lost.
func (e *TransportError) cut() bool {
	return errors.Is(e.Err, io.EOF) || errors.Is(e.Err, io.ErrUnexpectedEOF) || errors.Is(e.Err, syscall.ECONNRESET) || errors.Is(e.Err, syscall.EPIPE) ||
		strings.Contains(e.Err.Error(), "http2: client conn could not be established") // of net/http, without a type
}

// HTTPError is an answer that is not MCP: something else listens there, or
// something stands in between.
type HTTPError struct {
	URL    string
	Status int
	// Location is where a redirect points to.
	Location string
	// Body is the start of a plain text body.
	Body string
}

func (e *HTTPError) Error() string {
	message := fmt.Sprintf("%s answered HTTP %d", e.URL, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		message += " " + text
	}
	if e.Body != "" {
		message += ": " + e.Body
	}
	return message
}

// refused reports whether the status says that the request was not carried
// out.
func (e *HTTPError) refused() bool {
	return e.Status >= 300 && e.Status < 500 && e.Status != http.StatusRequestTimeout
}

// ProtocolError is an answer that breaks the protocol. A call may have run.
type ProtocolError struct {
	Method, Message string
	Err             error
}

func (e *ProtocolError) Unwrap() error { return e.Err }

func (e *ProtocolError) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}
