package identity_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

func follow(t testing.TB, conn *bus.Conn, log *slog.Logger) *identity.Keys {
	t.Helper()
	k, err := identity.NewKeys(conn, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

func authenticator(t testing.TB, k *identity.Keys, s identity.Settings, ways ...identity.Way) *identity.Authenticator {
	t.Helper()
	a := identity.New(ways...)
	if k != nil {
		a.TakeKeys(k)
	}
	t.Cleanup(a.Close)
	if err := a.Configure(s); err != nil {
		t.Fatal(err)
	}
	return a
}

func show(key string) gateway.Credentials {
	return gateway.Credentials{Header: http.Header{"Authorization": {"Bearer " + key}}}
}

func create(t testing.TB, s *store.APIKeys, name string, expires time.Time) string {
	t.Helper()
	key, err := s.Create(t.Context(), name, "anna", expires)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestAPIKeys(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	operator := store.NewAPIKeys(bustest.Connect(t, url))
	log := &bustest.Log{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	before := create(t, operator, "before", time.Time{})
	conn := bustest.Join(t, url)
	a := authenticator(t, follow(t, conn, logger), identity.Settings{
		Tenant: func(p string) string { return map[string]string{"anna": "acme"}[p] },
	})
	ended := make(chan string, 8)
	t.Cleanup(a.OnEnded(func(credential string) { ended <- credential }))
	good := func(key string) bool {
		p, err := a.Authenticate(t.Context(), show(key))
		return err == nil && p.Name == "anna" && p.Tenant == "acme" && strings.HasPrefix(p.Credential, "key bb_") && !strings.Contains(p.Credential, key)
	}
	if !good(before) {
		t.Error("a key from before is refused")
	}
	key := create(t, operator, "laptop", time.Time{})
	bustest.Eventually(t, "a new key is good", func() bool { return good(key) })
	over := create(t, operator, "over", time.Now().Add(-time.Minute))
	for name, wrong := range map[string]string{
		"another secret": key[:12] + strings.Repeat("a", 32), "another id": "bb_aaaaaaaa" + key[11:], "shorter": key[:len(key)-1],
		"longer": key + "a", "prefix": "bb_", "id alone": key[:11], "capitals": strings.ToUpper(key), "expired": over, "empty": "bb__",
	} {
		if _, err := a.Authenticate(t.Context(), show(wrong)); !fault.Is(err, fault.Unauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := operator.Create(t.Context(), "laptop", "bob", time.Time{}); !fault.Is(err, fault.Conflict) || fault.From(err).Executed != fault.No {
		t.Error("a name was given twice")
	}
	bustest.Eventually(t, "its use is noted", func() bool {
		used, err := operator.LastUsed(t.Context())
		return err == nil && !used[key[3:11]].IsZero()
	})
	began := time.Now()
	if err := operator.Revoke(t.Context(), key[3:11]); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "a key that is revoked is refused", func() bool { return !good(key) })
	t.Logf("revoked after %v", time.Since(began))
	bustest.Eventually(t, "its streams are told", func() bool {
		select {
		case which := <-ended:
			return which == "key "+key[:11]
		default:
			return false
		}
	})
	if !good(before) {
		t.Error("another key was revoked along")
	}
	all, err := operator.All(t.Context())
	if err != nil || len(all) != 2 {
		t.Errorf("%d keys, %v", len(all), err)
	}
	for _, k := range all {
		if strings.Contains(string(k.Hash), before[12:]) {
			t.Error("a secret is stored")
		}
	}
	if strings.Contains(log.String(), before) || strings.Contains(log.String(), key) {
		t.Error("a key is in the log")
	}
}

// An edge that cannot read the keys lets nobody in, and says that the key is not at
// fault.
func TestAPIKeysThatCannotBeRead(t *testing.T) {
	t.Parallel()
	conn := bustest.Join(t, bustest.Server(t)) // without buckets
	a := authenticator(t, follow(t, conn, bustest.Logger(t)), identity.Settings{Anonymous: true})
	key := "bb_aaaaaaaa_" + strings.Repeat("a", 32)
	if _, err := a.Authenticate(t.Context(), show(key)); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if p, err := a.Authenticate(t.Context(), gateway.Credentials{}); err != nil || p.Name != gateway.Anonymous.Name {
		t.Errorf("nothing shown: %+v, %v", p, err)
	}
}

// A missed change is known when all keys are read again.
func TestAPIKeysAreReadAgain(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	operator := store.NewAPIKeys(bustest.Connect(t, url))
	kept, gone := create(t, operator, "kept", time.Time{}), create(t, operator, "gone", time.Time{})
	keys := follow(t, bustest.Join(t, url), bustest.Logger(t))
	a := authenticator(t, keys, identity.Settings{})
	keys.Deafen()
	if err := operator.Revoke(t.Context(), gone[3:11]); err != nil {
		t.Fatal(err)
	}
	late := create(t, operator, "late", time.Time{})
	keys.Resync(t.Context())
	for key, want := range map[string]bool{kept: true, gone: false, late: true} {
		if _, err := a.Authenticate(t.Context(), show(key)); (err == nil) != want {
			t.Errorf("%s: %v", key[:11], err)
		}
	}
}

func BenchmarkAPIKey(b *testing.B) {
	url := bustest.Server(b)
	key := create(b, store.NewAPIKeys(bustest.Connect(b, url)), "x", time.Time{})
	a := authenticator(b, follow(b, bustest.Join(b, url), bustest.Logger(b)), identity.Settings{})
	c := show(key)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := a.Authenticate(b.Context(), c); err != nil {
			b.Fatal(err)
		}
	}
}
