// Package otlptest is a collector of traces in a test's process: a real receiver of OTLP over
// HTTP. Start at Start.
package otlptest

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a received span.
type Span struct {
	// Service is the service.name of the program that sent it.
	Service, Name     string
	Trace, ID, Parent string
	Kind              string
	// Attributes as text, and Failed the message of its error status, empty if none.
	Attributes map[string]string
	Failed     string
}

// Collector receives spans until the test ends.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
	// raw is all received bytes.
	raw []byte
}

// Start starts a collector.
func Start(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	srv := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(srv.Close)
	c.URL = srv.URL
	return c
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	raw, err := io.ReadAll(body)
	// A request to the collector's service has the same form as TracesData.
	data := &tracepb.TracesData{}
	if err == nil {
		err = proto.Unmarshal(raw, data)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.raw = append(c.raw, raw...)
	for _, from := range data.ResourceSpans {
		service := ""
		for _, a := range from.Resource.Attributes {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, scope := range from.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, read(service, s))
			}
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(service string, s *tracepb.Span) Span {
	out := Span{
		Service: service, Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Kind: strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")), Attributes: map[string]string{},
	}
	for _, a := range s.Attributes {
		value := a.Value.GetStringValue()
		if value == "" {
			value = fmt.Sprint(a.Value)
		}
		out.Attributes[a.Key] = value
	}
	if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
		out.Failed = s.Status.Message
	}
	return out
}

// Spans returns all received spans.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Trace returns the spans of one trace in order: the parent of each span comes before
// it.
func (c *Collector) Trace(id string) []Span {
	var in, out []Span
	for _, s := range c.Spans() {
		if s.Trace == id {
			in = append(in, s)
		}
	}
	known := func(id string) bool { return slices.ContainsFunc(in, func(s Span) bool { return s.ID == id }) }
	var below func(parent string)
	below = func(parent string) {
		for _, s := range in {
			if s.Parent == parent {
				out = append(out, s)
				below(s.ID)
			}
		}
	}
	for _, s := range in {
		if !known(s.Parent) {
			out = append(out, s)
			below(s.ID)
		}
	}
	return out
}

// Holds reports whether the received bytes contain a text.
func (c *Collector) Holds(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Contains(string(c.raw), text)
}
