package authserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// published is a host that has the metadata document of a client.
type published struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	reads  atomic.Int64
}

func publish(t *testing.T) *published {
	p := &published{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.reads.Add(1)
		(*p.answer.Load())(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *published) serve(f http.HandlerFunc) { p.answer.Store(&f) }

// document serves a document with changes; nil leaves a member out.
func (p *published) document(changes map[string]any) http.HandlerFunc {
	doc := map[string]any{
		"client_id": p.URL + "/client.json", "client_name": "Published", "redirect_uris": []string{callback}, "token_endpoint_auth_method": "none",
		"grant_types": []string{"authorization_code", "refresh_token"},
	}
	for k, v := range changes {
		if doc[k] = v; v == nil {
			delete(doc, k)
		}
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(doc)
	}
}

// TestDocument logs in with a client whose ID is a URL.
func TestDocument(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t), publish(t)
	p.serve(p.document(nil))
	a := w.attempt(p.URL + "/client.json")
	if page := a.page(t); !strings.Contains(page.body, "Published") {
		t.Errorf("the page does not name the client: %s", page.body)
	}
	got := a.exchange(t, a.code(t))
	if c := claims(t, got); c["client_id"] != a.client {
		t.Errorf("claims %v", c)
	}
	claims(t, a.refresh(t, got.json()["refresh_token"].(string)))
}

func TestDocumentAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain := func(status int, kind, body string) func(*published) http.HandlerFunc {
		return func(*published) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				w.WriteHeader(status)
				fmt.Fprint(w, body)
			}
		}
	}
	with := func(name string, value any) func(*published) http.HandlerFunc {
		return func(p *published) http.HandlerFunc { return p.document(map[string]any{name: value}) }
	}
	for name, serve := range map[string]func(*published) http.HandlerFunc{
		"of another client":       with("client_id", "https://app.example/client.json"),
		"of nobody":               with("client_id", nil),
		"another redirect URI":    with("redirect_uris", []string{"https://app.example/cb"}),
		"no redirect URI":         with("redirect_uris", nil),
		"a script":                with("redirect_uris", []string{callback, "javascript:alert(1)"}),
		"a secret":                with("client_secret", "x"),
		"a way with a secret":     with("token_endpoint_auth_method", "client_secret_post"),
		"a way with a key":        with("token_endpoint_auth_method", "private_key_jwt"),
		"no code":                 with("grant_types", []string{"implicit"}),
		"too large":               with("x", strings.Repeat("x", 5<<10)),
		"not there":               plain(http.StatusNotFound, "application/json", "{}"),
		"not JSON by its type":    plain(http.StatusOK, "text/html", "{}"),
		"not JSON":                plain(http.StatusOK, "application/json", "<html>"),
		"two clients in one text": plain(http.StatusOK, "application/json", `{"client_id":"a","client_id":"b"}`),
		"elsewhere": func(p *published) http.HandlerFunc {
			good := p.document(nil)
			return func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/client.json" {
					http.Redirect(w, r, "/moved.json", http.StatusFound)
					return
				}
				good(w, r)
			}
		},
		"for ever": func(*published) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := publish(t)
			p.serve(serve(p))
			r := w.attempt(p.URL + "/client.json").page(t)
			if r.StatusCode != http.StatusBadRequest || r.Header.Get("Location") != "" || strings.Contains(r.body, "<form") {
				t.Errorf("answers %s %s", r.Status, r.body)
			}
			if p.reads.Load() != 1 {
				t.Errorf("read %d times", p.reads.Load())
			}
		})
	}
	p := publish(t)
	p.serve(p.document(nil))
	port := p.URL[strings.LastIndexByte(p.URL, ':'):]
	for _, id := range []string{
		p.URL, p.URL + "/", p.URL + "/x/../client.json", p.URL + "/client.json#x", strings.Replace(p.URL, "//", "//user@", 1) + "/client.json",
		"http://169.254.169.254/latest/meta-data", "https://169.254.169.254/latest", "https://10.0.0.1/client.json", "https://[::ffff:10.0.0.1]/client.json",
		"https://0.0.0.0" + port + "/client.json", "http://0.0.0.0" + port + "/client.json", "http://app.example/client.json", "https:///client.json", "http://127.0.0.1" + port,
	} {
		if r := w.attempt(id).page(t); r.StatusCode != http.StatusBadRequest || strings.Contains(r.body, "<form") {
			t.Errorf("%s: answers %s", id, r.Status)
		}
	}
	if n := p.reads.Load(); n != 0 {
		t.Errorf("read %d times", n)
	}
}
