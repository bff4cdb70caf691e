package client

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Edge is what the commands ask of an edge. What they show, and the errors, do
// not depend on how it is reached: Client does so over HTTP, GRPC over gRPC.
type Edge interface {
	// Tools returns every tool, in the edge's order.
	Tools(ctx context.Context) ([]Tool, error)
	// Call calls a tool. arguments is a JSON object; nil means {}. onProgress, if
	// not nil, hears of each progress, one at a time, before Call returns.
	// Cancelling ctx cancels the call.
	Call(ctx context.Context, name string, arguments []byte, onProgress func(Progress)) (*Result, error)
	// Batch makes the calls of calls, one on each line, beside each other, and gives
	// each what became of one as it is done: an object with the call's index, from
	// 0, and whether it failed. An error of each ends the batch. No more is read
	// than is under way.
	Batch(ctx context.Context, calls io.Reader, each func(outcome jsontext.Value, failed bool) error) error
	// Held lists the caller's calls that wait until it agrees to them, the oldest
	// first, without their parameters.
	Held(ctx context.Context) ([]Held, error)
	// FindHeld returns one of them, with its parameters.
	FindHeld(ctx context.Context, id string) (*Held, error)
	// Approve has a held call carried out, or, if yes is false, forgotten: then the
	// result is nil.
	Approve(ctx context.Context, id string, yes bool) (*Result, error)
	// Close ends what is open to the edge.
	Close() error

	// shownURL is the URL for messages: without a password.
	shownURL() string
	// known are the tools of the last list.
	known() []Tool
}

// Held is a call that waits for a person.
type Held struct {
	// Approval is the id by which it is agreed to.
	Approval string `json:"approval"`
	Name     string `json:"name"`
	// Title of the tool; empty for none.
	Title string `json:"title,omitzero"`
	// Shown is the edge's question to the person: the call with all its
	// parameters, or with what it says of those too large to show.
	Shown string `json:"shown,omitzero"`
	// Parameters is a JSON object.
	Parameters jsontext.Value `json:"parameters,omitzero"`
	// Expires is when it is too late to agree.
	Expires time.Time `json:"expires"`
}

// open returns the edge at a URL; nothing is sent yet.
func open(o Options, warn func(string)) Edge {
	if scheme, _, ok := strings.Cut(o.URL, "://"); ok && (scheme == schemeGRPC || scheme == schemeGRPCS) {
		return &GRPC{URL: o.URL, Header: o.Header, Version: o.Version, Warn: warn}
	}
	return &Client{URL: o.URL, HTTP: o.HTTP, Header: o.Header, Version: o.Version, Warn: warn}
}

// guardToken refuses to send credentials to another machine unencrypted.
func guardToken(u *url.URL, header http.Header) error {
	if u.Scheme == "https" || u.Scheme == schemeGRPCS || header.Get("Authorization") == "" || loopback(u.Hostname()) {
		return nil
	}
	return &UsageError{Message: fmt.Sprintf("the token would travel to %s unencrypted; use %ss:// instead, or no token", u.Host, u.Scheme)}
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
