// Package noaatest stands in for the interface of the National Weather Service in
// tests, with answers of its shapes: New York has a forecast, the state has alerts,
// California has none, and the rest of the world is refused.
package noaatest

import (
	"embed"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed recorded
var recorded embed.FS

// Tonight is how the forecast begins, as get_forecast says it.
const Tonight = "Tonight:\nTemperature: 45°F\nWind: 10 mph W\nForecast: Clear skies with light winds..."

// Server is the interface, on loopback.
type Server struct {
	URL string

	server   *httptest.Server
	mu       sync.Mutex
	fresh    time.Duration
	instead  http.HandlerFunc
	requests []*http.Request
}

// Start serves until the test ends.
func Start(t testing.TB) *Server {
	s := New()
	t.Cleanup(s.Close)
	return s
}

// Close ends a server of New.
func (s *Server) Close() { s.server.Close() }

// New serves until it is closed.
func New() *Server {
	s := &Server{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /points/{point}", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.PathValue("point") == "40.7128,-74.006":
			s.answer(w, r, "points.json", http.StatusOK)
		default:
			s.answer(w, r, "no-point.json", http.StatusNotFound)
		}
	})
	mux.HandleFunc("GET /gridpoints/OKX/33,35/forecast", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, "forecast.json", http.StatusOK)
	})
	mux.HandleFunc("GET /alerts/active/area/{area}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("area") {
		case "NY":
			s.answer(w, r, "alerts.json", http.StatusOK)
		case "CA":
			s.answer(w, r, "no-alerts.json", http.StatusOK)
		default:
			s.answer(w, r, "no-area.json", http.StatusBadRequest)
		}
	})
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		instead := s.instead
		s.mu.Unlock()
		// The interface refuses requests that do not name their sender.
		if !strings.Contains(r.UserAgent(), "http") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if instead != nil {
			instead(w, r)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.URL = s.server.URL
	return s
}

// Instead has all requests answered by h, until it is nil again.
func (s *Server) Instead(h http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.instead = h
}

// Fresh has answers expire after d.
func (s *Server) Fresh(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fresh = d
}

// Requests are those made so far.
func (s *Server) Requests() []*http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*http.Request(nil), s.requests...)
}

func (s *Server) answer(w http.ResponseWriter, r *http.Request, file string, status int) {
	body, err := recorded.ReadFile("recorded/" + file)
	if err != nil {
		panic(err)
	}
	s.mu.Lock()
	fresh := s.fresh
	s.mu.Unlock()
	h := w.Header()
	h.Set("Etag", fmt.Sprintf("%q", file))
	h.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(fresh.Seconds())))
	h.Set("Expires", time.Now().Add(fresh).UTC().Format(http.TimeFormat))
	if status == http.StatusOK && r.Header.Get("If-None-Match") == h.Get("Etag") {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/geo+json")
	if status != http.StatusOK {
		h.Set("Content-Type", "application/problem+json")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
