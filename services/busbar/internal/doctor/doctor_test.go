package doctor_test

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats-server/v2/server"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/certtest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/join"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/busbar/internal/doctor"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

func TestMain(m *testing.M) {
	code := databasetest.Main(m)
	if code == 0 && flag.Lookup("test.run").Value.String() == "" {
		for _, words := range unsaid() {
			fmt.Println("docs/guides/operate.md says that doctor says", words, "and no test has heard it")
			code = 1
		}
	}
	os.Exit(leaktest.Code(code))
}

// look examines a bus, and what else o says.
func look(t *testing.T, nats string, o doctor.Options) []doctor.Finding {
	t.Helper()
	o.Bus.NATS = nats
	if o.Wait == 0 {
		o.Wait = bustest.Patience
	}
	if o.Version == "" {
		o.Version = "1"
	}
	found := doctor.Examine(t.Context(), o)
	heard.Lock()
	defer heard.Unlock()
	for _, f := range found {
		heard.lines = append(heard.lines, fmt.Sprintf("%s %s %s", f.Check, f.State, f.What))
	}
	return found
}

// says fails the test unless one finding of a check has a state and these words, and
// says what follows and what mends it where something is to be done.
func says(t *testing.T, all []doctor.Finding, check string, state doctor.State, words ...string) {
	t.Helper()
	for _, f := range all {
		if f.Check == check && f.State == state && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(f.What+"\n"+f.Mend, w) }) {
			if state != doctor.OK && (f.Follows == "" || f.Mend == "") {
				t.Errorf("%+v does not say what follows, or what mends it", f)
			}
			return
		}
	}
	t.Errorf("no finding of %s is %s and says %q; there are\n%s", check, state, words, text(t, all))
}

func text(t *testing.T, all []doctor.Finding) string {
	t.Helper()
	var b strings.Builder
	if err := doctor.Show(&b, all, terminal.Style{}, 200); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func tool(name string) *busv1.Tool {
	return &busv1.Tool{Name: name, Json: []byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`)}
}

func announce(t *testing.T, conn, from *bus.Conn, service, instance, version string) {
	t.Helper()
	a, err := registry.Announce(conn, service, instance, version, &busv1.Catalogue{Service: service, Tools: []*busv1.Tool{tool(service + "Tool")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Withdraw(context.WithoutCancel(t.Context())) })
	bustest.Eventually(t, instance+" is there", func() bool {
		all, err := registry.List(t.Context(), from)
		return err == nil && slices.ContainsFunc(all, func(i registry.Instance) bool { return i.Instance == instance })
	})
}

func start(t *testing.T, s *service.Service, conn *bus.Conn) {
	t.Helper()
	running, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := running.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// Where all is well nothing is wrong, and each check says what it has seen.
func TestWell(t *testing.T) {
	t.Parallel()
	fleet := bustest.NewFleet(t, bustest.Of(t, "text"), bustest.Of(t, "audit", permission.Audit))
	edges := fleet.Join(t, permission.Edge, nil)
	if _, err := storage.Ensure(t.Context(), edges, storage.Auto); err != nil {
		t.Fatal(err)
	}
	start(t, service.New("text", service.WithVersion("1.0.0"), service.WithLogger(bustest.Logger(t))), fleet.Join(t, "text", nil))
	start(t, service.New("audit", service.WithVersion("1.0.0"), service.WithLogger(bustest.Logger(t))), fleet.Join(t, "audit", nil))
	bustest.Eventually(t, "both are there", func() bool {
		all, err := registry.List(t.Context(), edges)
		return err == nil && len(all) == 2
	})
	// A server that is named twice is one.
	var found []doctor.Finding
	bustest.Eventually(t, "all is well", func() bool { // who answers late is not there
		found = look(t, fleet.URL+","+fleet.URL, doctor.Options{Bus: join.Flags{Proof: join.Proof{NKey: fleet.Dir.Path(permission.Operator)}}})
		return doctor.Worst(found) == doctor.OK
	})
	for _, check := range []string{"bus", "permissions", "storage", "services", "names", "clocks"} {
		says(t, found, check, doctor.OK)
	}
	if n := len(slices.DeleteFunc(slices.Clone(found), func(f doctor.Finding) bool { return f.Check != "bus" })); n != 1 {
		t.Errorf("%d findings of one server", n)
	}
	if doctor.Worst(found) != doctor.OK {
		t.Errorf("something is wrong:\n%s", text(t, found))
	}
}

// Nothing is said to be well that could not be looked at.
func TestNoJetStream(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(bustest.Patience) {
		t.Fatal("NATS does not start")
	}
	found := look(t, s.ClientURL(), doctor.Options{})
	for _, check := range []string{"storage", "services", "names", "clocks"} {
		says(t, found, check, doctor.Wrong)
		if slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Check == check && f.State == doctor.OK }) {
			t.Errorf("%s is well", check)
		}
	}
}

// A server that is away is found although another one answers; where none does, or one
// takes connections and says nothing, that is a finding and no hang.
func TestServersAway(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	there := bustest.Server(t)
	bustest.Connect(t, there)
	hung := "nats://" + silent.Addr().String()
	o := doctor.Options{Wait: bustest.Promptly}
	found := look(t, there+","+hung, o)
	says(t, found, "bus", doctor.OK, there)
	says(t, found, "bus", doctor.Wrong, hung, "start that NATS server")
	says(t, found, "storage", doctor.Wrong, "no audit service is there", "busbar audit serve")
	says(t, found, "services", doctor.Wrong, "no service is there")
	says(t, found, "permissions", doctor.Warn, "checks nobody", "busbar nats-config")
	o.Wait = time.Second
	began := time.Now()
	found = look(t, hung, o)
	if took := time.Since(began); took > bustest.Patience {
		t.Errorf("it took %v", took)
	}
	says(t, found, "bus", doctor.Wrong, hung)
	says(t, found, "bus", doctor.Warn, "not looked at", "permissions, storage, services, names, clocks")
}

// A bucket that is gone, one that another release made, and a consumer that is gone.
func TestStorage(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	js := conn.JetStream()
	if err := js.DeleteStream(t.Context(), "KV_sessions"); err != nil {
		t.Fatal(err)
	}
	// The second one would forget API keys: it has no limits of its own.
	for _, name := range []string{"KV_keys", "KV_access"} {
		bucket, err := js.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		other := bucket.CachedInfo().Config
		other.MaxAge, other.MaxMsgs = time.Hour, 1000
		if _, err := js.UpdateStream(t.Context(), other); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.DeleteConsumer(t.Context(), "AUDIT", "audit-v1"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "mcp.dlq.audit", nil); err != nil {
		t.Fatal(err)
	}
	found := look(t, url, doctor.Options{})
	says(t, found, "storage", doctor.Warn, "stream DLQ: 1 events could not be written", "busbar audit redeliver")
	if dead, err := js.Stream(t.Context(), "DLQ"); err != nil || dead.Purge(t.Context()) != nil {
		t.Fatal(err)
	}
	says(t, found, "storage", doctor.Wrong, "bucket sessions: it is not there", "busbar bus apply")
	says(t, found, "storage", doctor.Wrong, "bucket keys, bucket access: MaxMsgs, MaxAge", "busbar bus apply")
	says(t, found, "storage", doctor.Wrong, "stream AUDIT: it has no consumer", "busbar bus apply")
	if err := storage.Apply(t.Context(), conn, storage.Auto); err != nil { // the command that it names
		t.Fatal(err)
	}
	for _, f := range look(t, url, doctor.Options{}) {
		if f.Check == "storage" && f.State != doctor.OK && !strings.Contains(f.What, "no audit service") {
			t.Errorf("after what mends it: %+v", f)
		}
	}
}

// Users of another release lack what this one needs, or have what it does not.
func TestPermissions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*permission.User)
		state  doctor.State
		word   string
	}{
		"lacks one":        {func(u *permission.User) { u.Publish = without(u.Publish, "$JS.API.CONSUMER.LIST.*") }, doctor.Wrong, "$JS.API.CONSUMER.LIST.*"},
		"has one more":     {func(u *permission.User) { u.Publish = append(u.Publish, "mcp.call.>") }, doctor.Warn, "mcp.call.>"},
		"may not ask NATS": {func(u *permission.User) { u.Publish = without(u.Publish, "$SYS.REQ.USER.INFO") }, doctor.Warn, "does not say"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := secret.Dir(t.TempDir())
			if err := dir.Issue(nil); err != nil {
				t.Fatal(err)
			}
			var who []permission.Who
			for _, u := range []permission.User{permission.OfEdges(), permission.OfOperators()} {
				if u.Name == permission.Operator {
					c.change(&u)
				}
				keys, err := dir.NKeys(u.Name)
				if err != nil {
					t.Fatal(err)
				}
				who = append(who, permission.Who{User: u, NKeys: keys})
			}
			s := bustest.Start(t, bustest.Config{Conf: permission.Config(who...)})
			found := look(t, s.URL, doctor.Options{Wait: bustest.Promptly, Bus: join.Flags{Proof: join.Proof{NKey: dir.Path(permission.Operator)}}})
			says(t, found, "permissions", c.state, c.word, "busbar nats-config")
		})
	}
}

func without(all []string, one string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == one })
}

// A clock that is off, two versions of a service, a name that two services offer.
func TestInstances(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	skewed, err := bus.Connect(t.Context(), bus.Config{URL: url, Name: "skewed", Logger: bustest.Logger(t), Now: func() time.Time { return time.Now().Add(-3 * time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(skewed.Close)
	newEdge(t, conn) // which says whose a name is
	announce(t, conn, conn, "text", "old", "0.9.0")
	announce(t, skewed, conn, "text", "new", "1.0.0")
	second, err := registry.Announce(conn, "zeta", "z", "1", &busv1.Catalogue{Service: "zeta", Tools: []*busv1.Tool{tool("textTool")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { second.Withdraw(context.WithoutCancel(t.Context())) })
	full := service.New("full", service.WithLogger(bustest.Logger(t)))
	full.Check("database", func() error {
		return errors.New("the disk of the database of things was full at the last write\x1b[2J")
	})
	start(t, full, bustest.Connect(t, url))
	broken := service.New("broken", service.WithLogger(bustest.Logger(t)))
	broken.Check("nothing", func() error { panic("a check without its database") })
	start(t, broken, bustest.Connect(t, url))
	// One instance of it was killed, and is not forgotten yet.
	announce(t, conn, conn, "full", "killed", "0.1.0-dev")
	if _, err := task.Open(conn).Create(t.Context(), "gone", &busv1.Request{Method: "tools/call", Name: "slow"}, &busv1.Task{}); err != nil {
		t.Fatal(err)
	}
	var found []doctor.Finding
	bustest.Eventually(t, "both offer the name, and all answer", func() bool {
		found = look(t, url, doctor.Options{})
		return !slices.ContainsFunc([]string{"the name belongs to service", "not ready: database", "not ready: nothing", "behind the NATS server's"}, func(words string) bool {
			return !slices.ContainsFunc(found, func(f doctor.Finding) bool { return strings.Contains(f.What, words) })
		})
	})
	says(t, found, "names", doctor.Warn, "the name belongs to service", "busbar services assign")
	says(t, found, "storage", doctor.Wrong, "1 tasks wait for service gone", "busbar gone")
	says(t, found, "services", doctor.Warn, "1 of version 0.9.0, 1 of version 1.0.0", "stop the instances of the older version")
	says(t, found, "services", doctor.Wrong, "is not ready: database: the disk of the database of things", "/readyz")
	says(t, found, "services", doctor.Wrong, "is not ready: nothing: the check panicked", "/readyz")
	says(t, found, "services", doctor.Warn, "full killed does not answer", "start another")
	says(t, found, "services", doctor.Wrong, "text old does not answer")
	says(t, found, "clocks", doctor.Wrong, "text new", "3m0s behind the NATS server's", "timedatectl")
}

func newEdge(t *testing.T, conn *bus.Conn) *edge.Edge {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, conn, edge.Config{Version: "0.9.0", Logger: bustest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// An edge that is not ready, one whose certificate is about to expire, one that hangs and
// one that is not there.
func TestEdges(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	e := newEdge(t, bustest.Connect(t, url))
	ca := certtest.New(t)
	pair := ca.Issue(t, "edge", 48*time.Hour)
	shown, err := tls.LoadX509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	secured := httptest.NewUnstartedServer(e.Handler(door.Guard{Hosts: []string{"127.0.0.1"}}))
	secured.TLS = &tls.Config{Certificates: []tls.Certificate{shown}}
	secured.StartTLS()
	t.Cleanup(secured.Close)
	unready := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("not ready\nbus: not ready: the bus is not reachable\n"))
	}))
	t.Cleanup(unready.Close)
	ended := make(chan struct{})
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-ended }))
	t.Cleanup(hung.Close)
	t.Cleanup(func() { close(ended) })
	o := doctor.Options{Wait: bustest.Promptly, Edges: []client.Options{
		{URL: secured.URL, TLS: client.TLS{CA: ca.File}}, {URL: unready.URL}, {URL: hung.URL}, {URL: "http://127.0.0.1:1"},
	}}
	found := look(t, url, o)
	http.DefaultClient.CloseIdleConnections()
	says(t, found, "edges", doctor.OK, secured.URL, "version 0.9.0: ready")
	says(t, found, "edges", doctor.Warn, secured.URL, "this program is of version 1")
	says(t, found, "edges", doctor.Warn, secured.URL, "the certificate expires on", "in 1 days")
	says(t, found, "edges", doctor.Wrong, unready.URL, "bus: the bus is not reachable")
	says(t, found, "edges", doctor.Wrong, unready.URL, "its clock is 1h0m", "behind this machine's")
	says(t, found, "edges", doctor.Wrong, hung.URL)
	says(t, found, "edges", doctor.Wrong, "127.0.0.1:1")
}

// A database without tables, with them, of a later release, and one that hangs.
func TestDatabase(t *testing.T) {
	t.Parallel()
	url := databasetest.Postgres(t)
	nats := bustest.Server(t)
	at := func(url string, wait time.Duration) []doctor.Finding {
		return look(t, nats, doctor.Options{Wait: wait, DatabaseURL: url})
	}
	says(t, at(url, bustest.Patience), "database", doctor.Warn, "resource: it has no tables yet")
	store, err := table.Open(t.Context(), database.Config{URL: url}, table.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
	found := at(url, bustest.Patience)
	says(t, found, "database", doctor.OK, "resource: schema version")
	says(t, found, "database", doctor.Warn, "audit: it has no tables yet")
	noRoom(t, url)
	says(t, at(url, bustest.Patience), "database", doctor.Wrong, "the disk of database")
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	found = at("postgres://me:hunter2@"+silent.Addr().String()+"/busbar", time.Second)
	says(t, found, "database", doctor.Wrong, "does not answer")
	if said := text(t, found); strings.Contains(said, "hunter2") {
		t.Errorf("the password is shown:\n%s", said)
	}
}

// noRoom makes a database refuse every new table, like one with a full disk.
func noRoom(t *testing.T, url string) {
	t.Helper()
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.ExecContext(t.Context(), `
		CREATE FUNCTION no_room() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = 'disk_full'; END $$;
		CREATE EVENT TRIGGER no_room ON ddl_command_start EXECUTE FUNCTION no_room()`); err != nil {
		t.Fatal(err)
	}
}

// Files: certificates, and the policy of the edges.
func TestFiles(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t)
	expired := ca.Issue(t, "old", -time.Minute).Cert
	policy := filepath.Join(t.TempDir(), "access.yaml")
	if err := os.WriteFile(policy, []byte("nonsense: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	found := look(t, bustest.Server(t), doctor.Options{Certificates: []string{expired, "/no/such.pem", policy}, Access: policy})
	says(t, found, "certificates", doctor.Wrong, expired, "expired on", "busbar nats-config --tls")
	says(t, found, "certificates", doctor.Wrong, "/no/such.pem")
	says(t, found, "certificates", doctor.Wrong, policy, "no certificate")
	says(t, found, "access", doctor.Warn, policy, "busbar access check")
	var b strings.Builder
	if err := doctor.ShowJSON(&b, found); err != nil {
		t.Fatal(err)
	}
	var said struct {
		State    doctor.State
		Findings []doctor.Finding
	}
	if err := json.Unmarshal([]byte(b.String()), &said, json.MatchCaseInsensitiveNames(true)); err != nil || said.State != doctor.Wrong || len(said.Findings) != len(found) {
		t.Errorf("as JSON: %v, %s", err, &b)
	}
}
