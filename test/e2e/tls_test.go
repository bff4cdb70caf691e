package e2e

import (
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
)

// issue makes the secrets of a bus, and the part of its configuration that knows them.
func issue(t *testing.T, services string) (dir, config string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "secrets")
	made := start(t, "busbar", "nats-config", "--services", services, "--dir", dir)
	raw, err := io.ReadAll(made.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if code := made.wait(5 * time.Second); code != 0 {
		t.Fatalf("exited with %d", code)
	}
	return dir, string(raw)
}

const certified = `
roles:
  analyst: {allow: [tools/analyzeText]}
  operator: {allow: ["*"]}
principals:
  batch: {tenant: acme, roles: [operator]}
certificates:
  - {subject: anna, principal: anna, tenant: acme, roles: [analyst]}
`

// TestTLSEverywhere runs a fleet in which every connection is encrypted, and each end
// shows a certificate: programs to NATS, beside the secret of their user, and clients
// to the edge, whose certificate says who they are.
func TestTLSEverywhere(t *testing.T) {
	t.Parallel()
	ca, others := certtest.New(t), certtest.New(t)
	server := ca.Issue(t, "nats", time.Hour)
	secrets, users := issue(t, "text,planning:calls")
	nats := bustest.Start(t, bustest.Config{
		Synced: true, Conf: users + "\ntls { cert_file: '" + server.Cert + "', key_file: '" + server.Key + "', ca_file: '" + ca.File + "', verify: true }\n",
	})
	bus := strings.Replace(nats.URL, "nats://", "tls://", 1)
	secret := func(user string) string { return filepath.Join(secrets, user+".secret") }
	program := ca.Issue(t, "program", time.Hour)
	as := func(user string) []string {
		return []string{"--nats", bus, "--nats-ca", ca.File, "--nats-cert", program.Cert, "--nats-key", program.Key, "--nats-nkey", secret(user)}
	}
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, []byte(certified), 0o600); err != nil {
		t.Fatal(err)
	}
	own := ca.Issue(t, "edge", time.Hour)
	p := start(t, "busbar", slices.Concat([]string{"edge", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir(), "--access", file,
		"--tls-cert", own.Cert, "--tls-key", own.Key, "--tls-client-ca", ca.File}, as("edge"))...)
	edge := p.awaitReady()
	start(t, "text", as("text")...)
	u, err := url.Parse(edge.mcp)
	if err != nil || u.Scheme != "https" {
		t.Fatalf("the edge is at %s", edge.mcp)
	}

	anna, stranger := ca.Issue(t, "anna", time.Hour), others.Issue(t, "anna", time.Hour)
	call := func(env []string, tool string, args ...string) (int, string, string) {
		return busbar(t, env, append([]string{"call", "--url", "https://" + u.Host, "--ca", ca.File, tool, `{"operation":"statistics","text":"One bus."}`}, args...)...)
	}
	analyzes := func(env []string, args ...string) (int, string, string) {
		return busbar(t, env, append([]string{"call", "--url", "https://" + u.Host, "--ca", ca.File, "analyzeText", analyze}, args...)...)
	}
	bustest.Eventually(t, "anna calls", func() bool {
		code, _, _ := analyzes(nil, "--cert", anna.Cert, "--key", anna.Key)
		return code == 0
	})
	if code, out, said := busbar(t, nil, "access", "who", "--url", "https://"+u.Host, "--ca", ca.File, "--cert", anna.Cert, "--key", anna.Key); code != 0 || !strings.Contains(out, "anna") || !strings.Contains(out, "acme") {
		t.Errorf("anna is, with exit %d, %q %q", code, out, said)
	}
	env := []string{"SSL_CERT_FILE=" + ca.File, "BUSBAR_URL=https://" + u.Host}
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(calls, []byte(strings.Repeat(`{"name":"analyzeText","parameters":{"text":"One bus."}}`+"\n", 200)), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, said := busbar(t, env, "batch", "--cert", anna.Cert, "--key", anna.Key, calls); code != 0 || strings.Count(out, `"wordCount":2`) != 200 {
		t.Errorf("a batch: exit %d, %d lines, %q", code, strings.Count(out, "\n"), said)
	}
	for name, c := range map[string]struct {
		code int
		says []string
		run  func() (int, string, string)
	}{
		"a token that nobody has": {3, []string{"unauthenticated"}, func() (int, string, string) { return busbar(t, append(env, "BUSBAR_TOKEN=secret"), "tools") }},
		"anna, of what is not hers": {3, []string{"unknown_tool"}, func() (int, string, string) {
			return call(nil, "text_processor", "--cert", anna.Cert, "--key", anna.Key)
		}},
		"no certificate":        {3, []string{"unauthenticated", "BUSBAR_TOKEN", "--cert"}, func() (int, string, string) { return analyzes(nil) }},
		"another authority's":   {4, []string{"nothing ran", "--tls-client-ca"}, func() (int, string, string) { return analyzes(nil, "--cert", stranger.Cert, "--key", stranger.Key) }},
		"a certificate, no key": {2, []string{"--cert is without --key"}, func() (int, string, string) { return analyzes(nil, "--cert", anna.Cert) }},
		"an edge nobody vouches for": {4, []string{"--ca"}, func() (int, string, string) {
			return busbar(t, nil, "tools", "--url", "https://"+u.Host)
		}},
		"http": {3, []string{"https://"}, func() (int, string, string) { return busbar(t, nil, "tools", "--url", "http://"+u.Host) }},
		"NATS without an authority": {1, []string{"certificate"}, func() (int, string, string) {
			return busbar(t, nil, "services", "--nats", bus, "--nats-nkey", secret("operator"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			code, _, said := c.run()
			for _, want := range c.says {
				if code != c.code || !strings.Contains(said, want) {
					t.Errorf("exit %d: %s, want %d and %q", code, said, c.code, want)
				}
			}
		})
	}
	wrong := start(t, "text", append(as("text")[:8:8], "--nats-nkey", secret("planning"))...)
	if code := wrong.wait(bustest.Patience); code == 0 || !strings.Contains(wrong.stderr.String(), "is the secret of planning, and this is text: give it text.secret") {
		t.Errorf("the secret of another service: exit %d, %s", code, wrong.stderr.String())
	}

	// A key of batch's, in the environment of a server over stdio, on the same bus.
	code, out, said := busbar(t, nil, append([]string{"key", "create", "nightly", "--principal", "batch"}, as("operator")...)...)
	if code != 0 {
		t.Fatalf("no key, exit %d: %s", code, said)
	}
	token := strings.TrimSpace(out)
	stdio := append([]string{"--access", file}, as("edge")...)
	good := startPipeWith(t, []string{"BUSBAR_TOKEN=" + token}, stdio...)
	bustest.Eventually(t, "the tool of the service", func() bool {
		m, err := good.tryCall(answerTime, "tools/call", `{"name":"text_processor","arguments":{"operation":"statistics","text":"One bus."}}`)
		return err == nil && m.Error == nil
	})
	if none := startPipeWith(t, nil, stdio...); none.wait(bustest.Patience) == 0 || !strings.Contains(none.stderr.String(), "BUSBAR_TOKEN") {
		t.Errorf("without a token: %s", none.stderr.String())
	}
	if bad := startPipeWith(t, []string{"BUSBAR_TOKEN=" + token + "x"}, stdio...); bad.wait(bustest.Patience) == 0 || !strings.Contains(bad.stderr.String(), "BUSBAR_TOKEN") || strings.Contains(bad.stderr.String(), token) {
		t.Errorf("with a bad token: %s", bad.stderr.String())
	}
}
