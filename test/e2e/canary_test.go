package e2e

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/services/edge/identity/issuertest"
)

// canaries are the planted secrets, by their kind.
type canaries struct {
	// credentials must not be in anything that is written or said. parameters are
	// secrets that a client gives a tool: the service is told, and nobody else.
	credentials, parameters map[string]string
}

func planted(kind string) string { return "canary" + kind + rand.Text() }

// found are those that are in a text.
func found(in map[string]string, text string) (all []string) {
	for name, secret := range in {
		if strings.Contains(text, secret) {
			all = append(all, name)
		}
	}
	return all
}

// overheard has the messages that an operator with all rights hears.
type overheard struct {
	mu       sync.Mutex
	subjects bytes.Buffer
	said     bytes.Buffer
	n        int
}

func (o *overheard) note(m *nats.Msg) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.n++
	fmt.Fprintln(&o.subjects, m.Subject, m.Reply, m.Header)
	o.said.Write(m.Data)
	o.said.WriteByte('\n')
}

// count is how many messages were heard.
func (o *overheard) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.n
}

// texts are the subjects and headers, and the contents, of all that was heard.
func (o *overheard) texts() (subjects, said string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.subjects.String(), o.said.String()
}

// secretNames are names of parameters that say that their values are secrets.
var secretNames = []string{"password", "token", "api_key", "client_secret", "private_key"}

// fleetOfCanaries runs real programs that log all they can, with secrets wherever a
// program takes one.
type fleetOfCanaries struct {
	canaries
	secure   *http.Client
	roots    *x509.CertPool
	http     string // host:port of the edge's doors
	grpc     string
	metrics  string
	good     string // a token with which everything may be called
	proof    func(method, url, token string) string
	programs []*process
	heard    *overheard
	// kept is where programs keep data, upstream what GitHub was sent.
	kept     []string
	upstream bustest.Log
}

const watchful = `
roles:
  operator: {allow: ["*"], audit: read}
principals:
  anna: {tenant: acme, roles: [operator]}
oauth:
  - issuer: %s
    audience: https://mcp.example/mcp
    introspection: {client_id: busbar-edge, secret_env: CANARY_INTROSPECTION}
`

func startCanaries(t *testing.T) *fleetOfCanaries {
	t.Helper()
	f := &fleetOfCanaries{heard: &overheard{}, canaries: canaries{credentials: map[string]string{}, parameters: map[string]string{}}}
	ca, issuer := certtest.New(t), issuertest.New(t)
	server, own := ca.Issue(t, "nats", time.Hour), ca.Issue(t, "edge", time.Hour)
	f.roots = ca.Pool()
	f.secure = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: f.roots}}}
	t.Cleanup(f.secure.CloseIdleConnections)
	secrets, users := issue(t, "testservice:tasks,github,model,audit:audit+store,resource:store,prompt:refresh+store")
	god := planted("natspassword")
	bus := bustest.Start(t, bustest.Config{
		Conf: strings.Replace(users, "users: [", "users: [\n      { user: god, password: "+god+" }", 1) + "\ntls { cert_file: '" + server.Cert + "', key_file: '" + server.Key + "' }\n",
	})
	at := strings.Replace(bus.URL, "nats://", "tls://", 1)
	nc, err := nats.Connect(at, nats.UserInfo("god", god), nats.RootCAs(ca.File))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	if _, err := nc.Subscribe(">", f.heard.note); err != nil {
		t.Fatal(err)
	}
	f.plantFiles(t, secrets, own.Key, server.Key)
	file := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, watchful, issuer.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(user, program string, env []string, args ...string) *process {
		f.kept = append(f.kept, t.TempDir())
		all := slices.Concat([]string{"--log-level", "debug"}, args, []string{"--nats", at, "--nats-ca", ca.File, "--nats-nkey", filepath.Join(secrets, user+".secret")})
		p := startWith(t, append(env, "BUSBAR_DATA_DIR="+f.kept[len(f.kept)-1]), program, all...)
		f.programs = append(f.programs, p)
		return p
	}
	plant := func(name string) string {
		f.credentials[name] = planted(name)
		return f.credentials[name]
	}
	scraper := filepath.Join(t.TempDir(), "metrics.token")
	if err := os.WriteFile(scraper, []byte(plant("metricstoken")), 0o600); err != nil {
		t.Fatal(err)
	}
	edge := run("edge", "busbar", []string{"CANARY_INTROSPECTION=" + plant("introspection")}, "edge", "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
		"--metrics-listen", "127.0.0.1:0", "--metrics-token-file", scraper, "--access", file, "--tls-cert", own.Cert, "--tls-key", own.Key, "--auth-key-header", "X-Custom-Auth",
		"--auth-proxy-from", "127.0.0.0/8", "--audit-spool", t.TempDir())
	ready := edge.awaitReady()
	u, err := url.Parse(ready.mcp)
	if err != nil {
		t.Fatal(err)
	}
	f.http, f.grpc, f.metrics = u.Host, ready.grpc, ready.metrics
	run("testservice", "testservice", nil)
	run("audit", "busbar", nil, "audit", "serve")
	// These programs reach nobody, with their credentials.
	const nobody = "127.0.0.1:1"
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.Write(&f.upstream)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(broken.Close)
	run("github", "busbar", []string{"BUSBAR_GITHUB_TOKEN=" + plant("github"), "BUSBAR_GITHUB_URL=" + broken.URL}, "github")
	run("model", "busbar", []string{"BUSBAR_MODEL_PROVIDER=openai", "BUSBAR_MODEL_NAME=m", "BUSBAR_MODEL_API_KEY=" + plant("modelkey"), "BUSBAR_MODEL_URL=http://" + nobody}, "model")
	run("resource", "busbar", []string{"BUSBAR_DATABASE_URL=postgres://busbar:" + plant("database") + "@" + nobody + "/busbar?sslmode=verify-full&sslrootcert=/nowhere"}, "resource")
	run("prompt", "busbar", []string{"BUSBAR_DATABASE_URL=postgres://busbar:" + plant("database%zz") + "@" + nobody + ":x/busbar"}, "prompt")
	run("audit", "busbar", []string{"BUSBAR_AUDIT_KEY=" + plant("auditkey")}, "audit", "serve")
	for _, env := range [][]string{
		{"BUSBAR_NATS=nats://u:" + plant("bus") + "@" + bus.URL[len("nats://"):]},
		{"BUSBAR_NATS=nats://u:" + plant("bus%zz") + "@" + nobody + ":x"},
	} {
		p := startWith(t, append(env, "BUSBAR_DATA_DIR="+t.TempDir()), "busbar", "--log-level", "debug", "resource", "--nats-ca", ca.File)
		f.programs = append(f.programs, p)
	}
	f.good = issuer.Token("https://mcp.example/mcp", nil)
	f.credentials["good token"] = f.good
	key := issuertest.NewKey("ES256", "")
	f.proof = func(method, url, token string) string { return key.Proof(method, url, token, nil, nil) }
	f.credentials["bound token"] = issuer.Token("https://mcp.example/mcp", map[string]any{"cnf": map[string]any{"jkt": key.Thumbprint()}})
	f.credentials["proof"] = f.proof(http.MethodPost, "https://mcp.example/mcp", f.credentials["bound token"])
	f.credentials["expired token"] = issuer.Token("https://mcp.example/mcp", map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
	f.credentials["stranger's token"] = issuertest.New(t).Token("https://mcp.example/mcp", nil)
	f.credentials["opaque token"] = planted("opaque")
	f.credentials["bad key"] = "bb_canaryaa_" + strings.Repeat("c", 6) + rand.Text()
	for _, name := range []string{"password", "cookie", "x-api-key", "custom", "query", "refresh", "baggage"} {
		plant(name)
	}
	code, key2, said := busbar(t, nil, "key", "create", "nightly", "--principal", "anna", "--nats", at, "--nats-ca", ca.File, "--nats-nkey", filepath.Join(secrets, "operator.secret"))
	if code != 0 {
		t.Fatalf("no key, exit %d: %s", code, said)
	}
	f.credentials["API key"] = strings.TrimSpace(key2)
	for _, name := range secretNames {
		f.parameters[name] = planted("parameter" + name)
	}
	f.parameters["bearer"] = "Bearer " + planted("text")
	f.parameters["url"] = planted("url")
	return f
}

// plantFiles makes canaries of secrets in files: seeds, keys that seal, keys of certificates.
func (f *fleetOfCanaries) plantFiles(t *testing.T, secrets string, keys ...string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(secrets, "*.secret"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no secrets: %v", err)
	}
	for _, file := range append(files, keys...) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(raw), "\n") {
			if len(line) >= 40 && !strings.Contains(line, "---") {
				f.credentials[fmt.Sprint(filepath.Base(file), " line ", i)] = line
			}
		}
	}
}

// TestCanaries plants secrets of all kinds into a run of the real programs, with every door used
// and every kind of error provoked (cases 72 and 115), and then looks for them in the programs'
// logs, answers, metrics, records, files and messages on the bus.
func TestCanaries(t *testing.T) {
	t.Parallel()
	f := startCanaries(t)
	bustest.Eventually(t, "the tools are there", func() bool {
		status, _ := f.send(t, f.requests("echo", `{"value":"x"}`)[3], http.Header{"Authorization": {"Bearer " + f.good}})
		return status == http.StatusOK
	})
	var members []string
	for _, name := range secretNames {
		members = append(members, fmt.Sprintf("%q:%q", name, f.parameters[name]))
	}
	members = append(members, `"value":"postgres://app:`+f.parameters["url"]+`@db/app and `+f.parameters["bearer"]+`"`, `"key":"k"`)
	arguments := "{" + strings.Join(members, ",") + "}"
	statuses, answers := map[int]int{}, 0
	for _, tool := range []string{"raw", "fail", "panic", "no_such_tool"} {
		headers := f.headers()
		if tool != "raw" { // the rest is about tools
			headers = headers[:2]
		}
		for _, h := range headers {
			for _, r := range f.requests(tool, arguments) {
				status, said := f.send(t, r, h)
				statuses[status]++
				answers++
				for _, name := range found(f.credentials, said) {
					t.Errorf("%s %s answers %d with the %s: %s", r.Method, r.URL.Path, status, name, said)
				}
			}
		}
	}
	for _, h := range f.headers() {
		for _, said := range []string{f.socket(t, h), f.call(t, h)} {
			for _, name := range found(f.credentials, said) {
				t.Errorf("a stream answers with the %s: %s", name, said)
			}
		}
	}
	for _, want := range []int{200, 400, 401, 404} {
		if statuses[want] == 0 {
			t.Errorf("nothing was answered with %d: %v", want, statuses)
		}
	}
	f.commands(t)
	f.gitHub(t)
	_, rows := f.send(t, f.requests("raw", "{}")[10], http.Header{"Authorization": {"Bearer " + f.good}})
	bustest.Eventually(t, "calls are recorded", func() bool {
		_, rows = f.send(t, f.requests("raw", "{}")[10], http.Header{"Authorization": {"Bearer " + f.good}})
		return strings.Contains(rows, `"name":"no_such_tool"`)
	})
	scrape, err := http.NewRequest(http.MethodGet, f.metrics, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, figures := f.send(t, scrape, http.Header{"Authorization": {"Bearer " + f.credentials["metricstoken"]}})
	if status != http.StatusOK || !strings.Contains(figures, "busbar_calls_total") {
		t.Errorf("figures: %d %.100s", status, figures)
	}
	f.search(t, rows, figures)
	t.Logf("%d credentials and %d parameters, %d answers %v, %d messages overheard", len(f.credentials), len(f.parameters), answers, statuses, f.heard.count())
}

// commands runs commands that fail, with secrets in their environment.
func (f *fleetOfCanaries) commands(t *testing.T) {
	t.Helper()
	c := f.credentials
	for _, one := range []struct{ env, args []string }{
		{[]string{"BUSBAR_TOKEN=" + c["bad key"]}, []string{"tools", "--url", "https://" + f.http}},
		{[]string{"BUSBAR_TOKEN=" + c["bad key"]}, []string{"tools", "--url", "http://127.0.0.1:1"}},
		{[]string{"BUSBAR_TOKEN=" + c["bad key"]}, []string{"call", "--url", "http://mcp.example", "x"}},
		{[]string{"BUSBAR_NATS=nats://u:" + c["bus"] + "@127.0.0.1:1"}, []string{"bus", "check", "--nats-creds", "/nowhere"}},
		{[]string{"BUSBAR_NATS=nats://u:" + c["bus%zz"] + "@127.0.0.1:x"}, []string{"services"}},
	} {
		code, out, said := busbar(t, one.env, append([]string{"--log-level", "debug"}, one.args...)...)
		if code == 0 {
			t.Errorf("%v succeeds", one.args)
		}
		for _, name := range found(c, out+said) {
			t.Errorf("busbar %v shows the %s: %s%s", one.args, name, out, said)
		}
	}
}

// gitHub calls a tool that calls GitHub: that hears the service's own token, and none
// that a client has shown (case 72).
func (f *fleetOfCanaries) gitHub(t *testing.T) {
	t.Helper()
	r := func() *http.Request { return f.requests("getRepository", `{"owner":"a","repo":"b"}`)[3] }
	// The service is a process of its own, and may be the last one on the bus.
	bustest.Eventually(t, "GitHub is asked", func() bool {
		f.send(t, r(), http.Header{"Authorization": {"Bearer " + f.good}})
		return f.upstream.String() != ""
	})
	for _, h := range f.headers()[:2] {
		if _, said := f.send(t, r(), h); len(found(f.credentials, said)) > 0 {
			t.Errorf("a tool of GitHub's answers %s", said)
		}
	}
	sent := f.upstream.String()
	for _, name := range found(f.credentials, sent) {
		if name != "github" {
			t.Errorf("GitHub is sent the %s", name)
		}
	}
	if !strings.Contains(sent, f.credentials["github"]) {
		t.Errorf("GitHub is not sent the token of the service: %q", sent)
	}
}

// search looks for the planted secrets in everything that is left.
func (f *fleetOfCanaries) search(t *testing.T, rows, figures string) {
	t.Helper()
	look := func(where, text string, in ...map[string]string) {
		if text == "" {
			t.Errorf("%s: nothing at all", where)
		}
		for _, all := range in {
			for _, name := range found(all, text) {
				t.Errorf("%s: the %s", where, name)
			}
		}
	}
	for i, p := range f.programs {
		bustest.Eventually(t, fmt.Sprintf("program %d has said something", i), func() bool { return p.stderr.String() != "" })
		look(fmt.Sprintf("log of program %d, %s", i, p.cmd.Args[1:]), p.stderr.String(), f.credentials, f.parameters)
	}
	look("figures", figures, f.credentials, f.parameters)
	look("audit trail", rows, f.credentials, f.parameters)
	subjects, said := f.heard.texts()
	look("subjects and headers on the bus", subjects, f.credentials, f.parameters)
	look("messages on the bus", said, f.credentials)
	var files int
	for _, dir := range f.kept {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			files++
			for _, name := range append(found(f.credentials, string(raw)), found(f.parameters, string(raw))...) {
				t.Errorf("%s: the %s", path, name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	if files == 0 {
		t.Error("nobody keeps anything")
	}
}
