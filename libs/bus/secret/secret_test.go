package secret_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nkeys"

	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// A service's key is derived from the edges' key, and no other key can derive it.
func TestKeys(t *testing.T) {
	t.Parallel()
	d := secret.Dir(filepath.Join(t.TempDir(), "users"))
	if err := d.Issue([]string{"text", "planning"}); err != nil {
		t.Fatal(err)
	}
	edge, text := read(t, d, "edge"), read(t, d, "text")
	if got := edge.KeysFor("text"); len(got) != 1 || got[0] != text.Keys[0] || got[0] == edge.Keys[0] {
		t.Error("the edges do not derive the key of the service")
	}
	if len(text.KeysFor("planning"))+len(read(t, d, "operator").KeysFor("text")) > 0 {
		t.Error("who has another key derives one")
	}
	if edge.KeysFor("planning")[0] == text.Keys[0] {
		t.Error("two services have one key")
	}
	for _, user := range []string{"edge", "operator", "text", "planning"} {
		info, err := os.Stat(d.Path(user))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", user, info.Mode(), err)
		}
		raw, err := os.ReadFile(d.Path(user))
		if err != nil {
			t.Fatal(err)
		}
		if pair, err := nkeys.ParseDecoratedUserNKey(raw); err != nil { // as NATS's own tools read it
			t.Errorf("%s: %v", user, err)
		} else if public, _ := pair.PublicKey(); public != mustPublic(t, read(t, d, user)) {
			t.Errorf("%s: another seed", user)
		}
	}
}

// Existing secrets are kept. After a renewal the previous secret stays valid until its file is
// removed.
func TestIssueAgain(t *testing.T) {
	t.Parallel()
	d := secret.Dir(t.TempDir())
	issue := func(services []string, renew ...string) {
		t.Helper()
		if err := d.Issue(services, renew...); err != nil {
			t.Fatal(err)
		}
	}
	issue([]string{"text"})
	edge, text := read(t, d, "edge"), read(t, d, "text")
	issue([]string{"text", "github"})
	if now := read(t, d, "text"); string(now.Seed) != string(text.Seed) || now.Keys[0] != text.Keys[0] {
		t.Error("a secret was changed")
	}
	issue([]string{"text", "github"}, "edge", "text")
	if now := read(t, d, "edge"); len(now.Keys) != 1 || now.Keys[0] == edge.Keys[0] {
		t.Error("the master key was not renewed")
	}
	for _, service := range []string{"text", "github"} {
		now := read(t, d, service)
		if want := append(read(t, d, "edge").KeysFor(service), edge.KeysFor(service)...); len(now.Keys) != 2 || now.Keys[0] != want[0] || now.Keys[1] != want[1] {
			t.Errorf("%s does not take the new key and the old one", service)
		}
	}
	for user, want := range map[string]int{"edge": 2, "text": 2, "github": 1} {
		if keys, err := d.NKeys(user); err != nil || len(keys) != want {
			t.Errorf("%s has the nkeys %v, %v", user, keys, err)
		}
	}
	if err := d.Issue([]string{"text", "github"}, "text"); err == nil || !strings.Contains(err.Error(), "text.old") {
		t.Errorf("renewed again: %v", err)
	}
	for _, user := range []string{"edge", "text"} {
		if err := os.Remove(filepath.Join(string(d), user+".old")); err != nil {
			t.Fatal(err)
		}
	}
	issue([]string{"text", "github"})
	if now := read(t, d, "github"); len(now.Keys) != 1 || now.Keys[0] != read(t, d, "edge").KeysFor("github")[0] {
		t.Error("the old key is still good")
	}
}

// A failed renewal moves no file: programs still find their secrets.
func TestRenewNothing(t *testing.T) {
	t.Parallel()
	d := secret.Dir(t.TempDir())
	if err := d.Issue([]string{"text"}); err != nil {
		t.Fatal(err)
	}
	before := read(t, d, "text")
	for _, renew := range [][]string{{"text", "unknown"}, {"text", "github"}} {
		if err := d.Issue([]string{"text", "github"}, renew...); err == nil {
			t.Errorf("%v: renewed", renew)
		}
		if now := read(t, d, "text"); string(now.Seed) != string(before.Seed) {
			t.Errorf("%v: the secret of text has changed", renew)
		}
	}
	if err := d.Issue([]string{"text"}, "text", "text"); err != nil {
		t.Errorf("a user that is named twice: %v", err)
	}
	if now := read(t, d, "text"); string(now.Seed) == string(before.Seed) {
		t.Error("the secret was not renewed")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := secret.Secret{Of: "text", Keys: []secret.Key{secret.NewKey()}}
	good.Seed, _ = secret.NewSeed()
	raw := string(good.Encode())
	for name, text := range map[string]string{
		"empty": "", "no secret": "hello", "a short key": strings.Replace(raw, "\n-----END BUSBAR", "AAAA\n-----END BUSBAR", 1),
		"two services": raw + string(secret.Secret{Of: "github", Keys: []secret.Key{secret.NewKey()}}.Encode()),
	} {
		if s, err := secret.Parse([]byte(text)); err == nil {
			t.Errorf("%s: %v", name, s.Of)
		} else if strings.Contains(err.Error(), string(good.Seed)) {
			t.Errorf("%s: the error shows the seed", name)
		}
	}
}

func FuzzParse(f *testing.F) {
	s := secret.Secret{Of: "text", Keys: []secret.Key{secret.NewKey(), secret.NewKey()}}
	s.Seed, _ = secret.NewSeed()
	f.Add(s.Encode())
	f.Add([]byte("-----BEGIN BUSBAR KEY-----\nFor: x\n\nAAAA\n-----END BUSBAR KEY-----\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := secret.Parse(raw)
		if err == nil && s.Seed == nil && len(s.Keys) == 0 {
			t.Error("it holds nothing")
		}
		if err == nil && len(s.Keys) > 0 && s.Of == "" {
			t.Error("keys for nobody")
		}
	})
}

func read(t *testing.T, d secret.Dir, user string) secret.Secret {
	t.Helper()
	s, err := d.Read(user)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mustPublic(t *testing.T, s secret.Secret) string {
	t.Helper()
	public, err := s.Public()
	if err != nil {
		t.Fatal(err)
	}
	return public
}
