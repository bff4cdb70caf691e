package soak

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/test/caller"
)

// fleet is a whole Busbar: NATS, Postgres, and two of everything else. The first
// of two lives for the whole soak, so that what it holds can be measured; the
// second one is killed.
type fleet struct {
	dir, ledger, trail string
	database           *databasetest.Server
	nats               *process
	edges              [2]*edge
	all                []*process
}

// upTime is how long a process may take until it can be used, on a slow disk.
const upTime = 3 * time.Minute

// metricsToken opens the metrics of edges.
const metricsToken = "the-metrics-of-a-soak-are-read-with-this"

// edge is where it listens.
type edge struct {
	*process
	web, grpc, metrics string
}

// spool is the directory in which records of all edges wait that the bus does not accept.
func (f *fleet) spool() string { return filepath.Join(f.dir, "spool") }

func startFleet(t *testing.T, bin string) *fleet {
	t.Helper()
	dir, err := os.MkdirTemp("", "busbar-soak-")
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{dir: dir, ledger: filepath.Join(dir, "ledger"), trail: filepath.Join(dir, "trail"), database: databasetest.Own(t, "fsync=on")}
	t.Cleanup(f.end)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bus := freeAddress(t)
	url := "nats://" + bus
	f.nats = f.add("nats", []string{role + "=nats"}, self, bus, filepath.Join(dir, "nats"))
	f.nats.up = func() bool { return listens(bus) }
	f.nats.start(t)
	reads := filepath.Join(dir, "metrics.token")
	if err := os.WriteFile(reads, []byte(metricsToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	busbar, database := filepath.Join(bin, "busbar"), "--database-url="+f.database.URL()
	for i := range f.edges {
		e := &edge{web: freeAddress(t), grpc: freeAddress(t), metrics: freeAddress(t)}
		e.process = f.add(fmt.Sprint("edge-", i), nil, busbar, "edge", "--nats", url, "--listen", e.web, "--grpc-listen", e.grpc,
			"--metrics-listen", e.metrics, "--metrics-token-file", reads, "--audit-spool", f.spool())
		e.up = func() bool { return ready(e.web) }
		f.edges[i] = e
	}
	for i := range 2 {
		f.add(fmt.Sprint("ledger-", i), []string{role + "=ledger", ledgerFile + "=" + f.ledger}, self, "--nats", url)
		f.add(fmt.Sprint("text-", i), nil, busbar, "text", "--nats", url)
		f.add(fmt.Sprint("batch-", i), nil, busbar, "batch-service", "--nats", url)
		f.add(fmt.Sprint("resource-", i), nil, busbar, "resource", "--nats", url, database)
		f.add(fmt.Sprint("audit-", i), nil, busbar, "audit", "serve", "--nats", url, database)
	}
	for _, p := range f.all[1:] {
		p.start(t)
	}
	for _, e := range f.edges {
		for _, c := range []caller.Call{{Tool: "look", Arguments: `{"key":"x"}`}, {Tool: "analyzeText", Arguments: `{"text":"x"}`}, {Tool: "delete_resource", Arguments: `{"uri":"soak:none"}`}, {Tool: "batch", Arguments: `{"calls":[{"name":"look","arguments":{"key":"x"}}]}`}} {
			var a caller.Answer
			if !eventually(t.Context(), upTime, func() bool {
				a = caller.REST(t.Context(), e.web, c)
				return a.OK || a.Reason == "unknown_resource"
			}) {
				t.Fatalf("%s through %s fails for %v: %v", c.Tool, e.name, upTime, a)
			}
		}
	}
	return f
}

// named is a process of the fleet.
func (f *fleet) named(name string) *process {
	for _, p := range f.all {
		if p.name == name {
			return p
		}
	}
	panic("no process " + name)
}

func (f *fleet) add(name string, env []string, argv ...string) *process {
	p := &process{name: name, argv: argv, log: filepath.Join(f.dir, name+".log")}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BUSBAR_") {
			p.env = append(p.env, v)
		}
	}
	// The command finds there the files that edges keep for their operator.
	p.env = append(append(p.env, "XDG_STATE_HOME="+f.dir), env...)
	f.all = append(f.all, p)
	return p
}

// end kills what runs; NATS last, so that the others do not log its end.
func (f *fleet) end() {
	for i := len(f.all) - 1; i >= 0; i-- {
		f.all[i].signal(syscall.SIGCONT)
		f.all[i].kill(syscall.SIGKILL)
	}
	_ = os.RemoveAll(f.dir)
}

// keepLogs puts the logs where they outlive the fleet.
func (f *fleet) keepLogs() string {
	kept, err := os.MkdirTemp("", "busbar-soak-logs-")
	if err != nil {
		return err.Error()
	}
	logs, _ := filepath.Glob(filepath.Join(f.dir, "*.log"))
	for _, path := range append(logs, f.ledger, f.trail) {
		if b, err := os.ReadFile(path); err == nil {
			_ = os.WriteFile(filepath.Join(kept, filepath.Base(path)), b, 0o600)
		}
	}
	return kept
}

// process is one program of the fleet.
type process struct {
	name string
	argv []string
	env  []string
	log  string
	// up reports whether it can be used; nil for a process that does not say so.
	up func() bool

	mu     sync.Mutex
	cmd    *exec.Cmd
	exited chan struct{}
}

func (p *process) start(t testing.TB) {
	t.Helper()
	if err := p.begin(); err != nil {
		t.Fatal(err)
	}
	if !p.awaitUp(t.Context()) {
		said, _ := os.ReadFile(p.log)
		t.Fatalf("%s\n%s is not up after %v", said[max(0, len(said)-2000):], p.name, upTime)
	}
}

func (p *process) begin() error {
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = p.env, log, log
	diesWithUs(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.exited = cmd, exited
	return nil
}

func (p *process) awaitUp(ctx context.Context) bool {
	return p.up == nil || eventually(ctx, upTime, p.up)
}

// kill ends the process with a signal and waits until it is gone. If it does not end within the
// time for calls in flight, it is killed, and that is an error.
func (p *process) kill(s syscall.Signal) error {
	p.signal(s)
	p.mu.Lock()
	exited := p.exited
	p.mu.Unlock()
	if exited == nil {
		return nil
	}
	select {
	case <-exited:
		return nil
	case <-time.After(40 * time.Second):
		p.signal(syscall.SIGKILL)
		<-exited
		return fmt.Errorf("%s ignores %v", p.name, s)
	}
}

func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(s)
	}
}

// pid is 0 for a process that is gone.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	select {
	case <-p.exited:
		return 0
	default:
		return p.cmd.Process.Pid
	}
}

// eventually waits until ok holds.
func eventually(ctx context.Context, within time.Duration, ok func() bool) bool {
	for deadline := time.Now().Add(within); !ok(); {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return false
		}
		time.Sleep(50 * time.Millisecond)
	}
	return true
}

func ready(address string) bool {
	client := http.Client{Timeout: 2 * time.Second}
	resp, err := client.Get("http://" + address + "/readyz")
	if err != nil {
		return false
	}
	return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
}

func listens(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// lastPort is the one given out last. They are below those that the system takes
// for connections, which would be in the way when a process comes back.
var lastPort = 20000 + os.Getpid()%10000

func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		lastPort++
		address := fmt.Sprint("127.0.0.1:", lastPort)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}
