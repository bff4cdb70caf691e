package authority_test

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authority"
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// An issued certificate is trusted for its hosts, and kept until it is asked for others; the
// authority stays.
func TestIssue(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	issue := func(hosts ...string) {
		t.Helper()
		if err := authority.Issue(dir, hosts); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair([]byte(read(t, dir, authority.Cert)), []byte(read(t, dir, authority.Key)))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM([]byte(read(t, dir, authority.CA)))
		for _, h := range hosts {
			for _, use := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
				if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: h, Roots: roots, KeyUsages: []x509.ExtKeyUsage{use}}); err != nil {
					t.Errorf("%s: %v", h, err)
				}
			}
		}
	}
	issue("nats-1", "127.0.0.1")
	ca, cert := read(t, dir, authority.CA), read(t, dir, authority.Cert)
	issue("127.0.0.1")
	if read(t, dir, authority.Cert) != cert {
		t.Error("a certificate that is good was replaced")
	}
	issue("nats-1", "nats-2")
	if read(t, dir, authority.Cert) == cert || read(t, dir, authority.CA) != ca {
		t.Error("another host takes another certificate of the same authority")
	}
	// A torn pair is replaced.
	if err := os.Remove(filepath.Join(dir, authority.Key)); err != nil {
		t.Fatal(err)
	}
	issue("nats-1")
	for _, name := range []string{authority.Key, "ca-key.pem"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// A file that is not a certificate is not overwritten.
	if err := os.WriteFile(filepath.Join(dir, "ca-key.pem"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := authority.Issue(dir, []string{"nats-1"}); err == nil || read(t, dir, "ca-key.pem") != "mine" {
		t.Errorf("a broken authority: %v", err)
	}
}

func TestValidHosts(t *testing.T) {
	t.Parallel()
	if err := authority.ValidHosts([]string{"nats", "nats-1.corp.example", "*.corp.example", "10.0.0.5", "::1"}); err != nil {
		t.Error(err)
	}
	for _, host := range []string{"", "nats:4222", "tls://nats", "nats 1", "a..b", "-nats", "a*.example", strings.Repeat("a.", 200) + "a"} {
		if err := authority.ValidHosts([]string{"nats", host}); err == nil {
			t.Errorf("%q is taken for a host", host)
		}
	}
}
