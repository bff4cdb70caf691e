package access

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
)

func (w *world) ask(t *testing.T, d *door, token string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	a, err := d.heard(ctx, t, w, func() http.Header { return auth("Bearer " + token) })
	if err != nil {
		t.Error(err)
	}
	return a
}

// TestCase64 changes the issuer's keys under load, beside a flood of tokens of unknown keys:
// no token of a known key is refused, a new key is known within the pause between reads of
// the issuer's keys, and the flood causes no more of these.
func TestCase64(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if a := w.ask(t, doors[4], w.main.Token(resource, nil)); a.status != 200 {
		t.Fatalf("%+v", a)
	}
	var all sync.WaitGroup
	var calls atomic.Int64
	var known sync.Map // the keys with which a call was let in
	old := w.main.Key("ES256-1")
	stop := make(chan struct{})
	for range 4 { // with whatever key is the newest
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("rotated-%d", calls.Load()/200)
				key := w.main.Key(id)
				if key == nil {
					key = old
				}
				_, wasKnown := known.Load(key.ID)
				a := w.ask(t, doors[n%len(doors)], key.Token(nil, w.main.Claims(resource, nil)))
				if a.status == 401 && key != old && !wasKnown { // published a moment ago
					key = old
					a = w.ask(t, doors[n%len(doors)], key.Token(nil, w.main.Claims(resource, nil)))
				}
				if a.status != 200 {
					t.Errorf("a good token of key %s: %+v", key.ID, a)
				}
				known.Store(key.ID, true)
				calls.Add(1)
			}
		})
	}
	flood := issuertest.NewKey("ES256", "x")
	for n := range 2 { // each of which is never asked about again
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("flood-%d-%d", n, i)
				if a := w.ask(t, doors[4], flood.Token(map[string]any{"kid": id}, w.main.Claims(resource, nil))); a.status != 401 && a.status != 503 {
					t.Errorf("a token of no key: %+v", a)
				}
			}
		})
	}
	began, before := time.Now(), w.main.Reads.Load()
	for n := range 2 {
		w.main.Add("ES256", fmt.Sprintf("rotated-%d", n))
		bustest.Eventually(t, "calls go on", func() bool { return calls.Load() >= int64(200*(n+1)) })
	}
	newest := w.main.Key("rotated-1").Token(nil, w.main.Claims(resource, nil))
	bustest.Eventually(t, "the newest key is known", func() bool { return w.ask(t, doors[4], newest).status == 200 })
	close(stop)
	all.Wait()
	reads, most := w.main.Reads.Load()-before, 2+int64(time.Since(began)/(10*time.Second))
	t.Logf("%d good calls in %v, %d reads of keys", calls.Load(), time.Since(began).Round(time.Millisecond), reads)
	if reads > most {
		t.Errorf("%d reads in %v", reads, time.Since(began))
	}
}

// TestCase65 takes the issuer away: known tokens stay valid at every door, and unknown ones are
// unavailable, not bad. In services/edge/identity/oauth an hour passes.
func TestCase65(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.main.Token(resource, nil)
	for _, d := range doors {
		w.try(t, d, auth("Bearer "+token), good, "/anna")
	}
	for name, answer := range map[string]http.HandlerFunc{
		"is broken": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"hangs":     func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"sends us inside": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		},
		"answers 10 MB": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 10<<20)) },
	} {
		w.main.Answer(answer)
		w.easy.Answer(answer)
		for _, d := range doors {
			w.try(t, d, auth("Bearer "+token), good, "/anna")
			w.try(t, d, auth("Bearer "+w.main.Token(resource, nil)), good, "/anna")
			w.try(t, d, auth("Bearer "+w.easy.Token(resource, nil)), away, "")
		}
		t.Log("the issuer " + name)
	}
}

// TestCase66 calls what other scopes would allow, by a policy file.
func TestCase66(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "access.yaml")
	text := `
roles:
  caller: {allow: [tools/whoami]}
  writer: {allow: ["resources/*"]}
  admin: {allow: ["*"]}
oauth:
  - {issuer: "` + w.main.URL + `", audience: "` + resource + `", scopes: {"mcp:call": [caller], "mcp:write": [writer], "mcp:admin": [admin]}, ask: ["mcp:write"]}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var cfg edge.Config
	policy := edge.PolicyFlags{Access: file}
	closed, err := policy.OpenPolicy(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	closed, err = new(edge.IdentityFlags).OpenIdentity(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closed)
	w.auth = cfg.Authenticator.(*identity.Authenticator)
	w.policy = cfg.Access.(*access.Live)
	w.serve(t)
	lacking := outcome{"scope", 403, `Bearer error="insufficient_scope", scope="mcp:call", ` + where}
	for name, c := range map[string]struct {
		scope any
		want  outcome
	}{
		"enough": {"mcp:call", good}, "more": {"mcp:admin", good}, "both": {"mcp:call mcp:admin", good}, "among others": {"openid mcp:call x", good}, "a list": {[]string{"mcp:call"}, good},
		"another": {"mcp:write", lacking}, "none": {"", lacking}, "left out": {nil, lacking}, "capitals": {"MCP:call", lacking}, "its beginning": {"mcp", lacking}, "with a star": {"mcp:*", lacking}, "commas": {"mcp:call,mcp:admin", lacking},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token := w.main.Token(resource, claims{"scope": c.scope})
			for _, d := range doors {
				if d.says {
					w.try(t, d, auth("Bearer "+token), c.want, "/anna")
				}
			}
		})
	}
	t.Run("expired and for nothing", func(t *testing.T) {
		late := outcome{"", 401, strings.Replace(wrong.challenge, "mcp:call", "mcp:write", 1)}
		for _, d := range doors {
			w.try(t, d, auth("Bearer "+w.main.Token(resource, claims{"exp": in(-time.Hour), "scope": nil})), late, "")
		}
	})
}

// TestCase67 ends a stream whose credentials end: a key that is revoked, at once.
func TestCase67(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.key(t, "stream", time.Time{})
	sse := doors[3]
	var body *http.Response
	bustest.Eventually(t, "the stream is open", func() bool {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sse.url(w), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = auth("Bearer " + key)
		if body, err = w.client.Do(r); err != nil {
			t.Fatal(err)
		}
		if body.StatusCode == http.StatusOK {
			return true
		}
		_ = body.Body.Close()
		return false
	})
	t.Cleanup(func() { _ = body.Body.Close() })
	if err := w.keys.Revoke(t.Context(), key[3:11]); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	var read bytes.Buffer
	_, err := read.ReadFrom(body.Body)
	if d := time.Since(began); d > bustest.Promptly {
		t.Errorf("the stream went on for %v: %v", d, err)
	} else {
		t.Logf("ended after %v", d)
	}
}

// TestCase70 sends what only those inside may say.
func TestCase70(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.main.Token(resource, nil)
	for _, d := range doors {
		h := auth("Bearer " + token)
		for _, name := range []string{
			"X-Forwarded-User", "X-Forwarded-For", "Forwarded", "X-Real-Ip", "X-Tenant", "X-Principal", "X-Roles", "Nats-Request-Info", "Nats-Msg-Id", "Busbar-Principal",
			"Busbar-Tenant", "Busbar-Delegation", "X-Custom-Auth", "X-Client-Cert", "X-Ssl-Client-S-Dn", "X-Authenticated-Userid", "Remote-User",
		} {
			h[name] = []string{"root"}
		}
		w.try(t, d, h, good, "/anna")
		h.Del("Authorization")
		w.try(t, d, h, none, "")
	}
}

// TestCase115 plants secrets of all kinds and looks for them in the log and in the
// answers.
func TestCase115(t *testing.T) {
	t.Parallel()
	var log bustest.Log
	w := newWorldLogging(t, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	key := issuertest.NewKey("ES256", "")
	bound := w.main.Token(resource, claims{"cnf": claims{"jkt": key.Thumbprint()}})
	secrets := map[string]string{
		"a good token": w.main.Token(resource, nil), "an expired token": w.main.Token(resource, claims{"exp": in(-time.Hour)}),
		"a token of a stranger": w.stranger.Token(resource, nil), "an opaque token": "canary-opaque-0123456789abcdef", "a bound token": bound,
		"an API key": w.key(t, "canary", time.Time{}), "a bad API key": "bb_canaryaa_" + strings.Repeat("c", 32), "some text": "canary-" + strings.Repeat("d", 40),
	}
	for _, secret := range secrets {
		for _, d := range doors {
			proof := key.Proof(d.method, d.url(w), secret, nil, nil)
			for _, h := range []http.Header{
				auth("Bearer " + secret), auth("Basic " + secret), auth(secret), auth("Bearer "+secret, "Bearer x"), auth("Bearer " + secret + ", " + secret),
				{"Authorization": {"DPoP " + secret}, "Dpop": {proof}}, {"X-Api-Key": {secret}, "Cookie": {"token=" + secret}},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
				got, err := d.send(ctx, w, d, h)
				cancel()
				if err != nil && strings.Contains(err.Error(), secret) || strings.Contains(got.body+got.challenge, secret) || strings.Contains(got.body+got.challenge, proof) {
					t.Errorf("%s answers with a secret: %+v", d.name, got)
				}
			}
		}
	}
	secrets["the secret of introspection"] = issuertest.Secret
	for name, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("%s is in the log", name)
		}
	}
	if log.String() == "" {
		t.Error("nothing was logged at all")
	}
}
