package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/test/testservice"
)

const callAnalyze = `{"name":"analyzeText","arguments":` + analyze + `}`

// TestStdioShared is three desktop clients on one machine: each starts its own
// busbar, one of them holds the data directory, and when it is killed the next
// one does.
func TestStdioShared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	all := make([]*pipe, 3)
	var wg sync.WaitGroup
	for i := range all {
		all[i] = startPipe(t, "--data-dir", dir)
	}
	// All at once, as at a desktop's start.
	for _, p := range all {
		wg.Go(func() {
			if _, err := p.tryCall(answerTime, "tools/call", callAnalyze); err != nil {
				t.Errorf("first call: %v", err)
			}
		})
	}
	wg.Wait()
	for len(all) > 1 && !t.Failed() {
		holder := holderOf(t, dir)
		var rest []*pipe
		for _, p := range all {
			if p.cmd.Process.Pid == holder {
				p.kill()
			} else {
				rest = append(rest, p)
			}
		}
		if len(rest) != len(all)-1 {
			t.Fatalf("process %d holds %s, and is none of ours", holder, dir)
		}
		all = rest
		killed := time.Now()
		for _, p := range all {
			wg.Go(func() {
				refused, slowest := 0, time.Duration(0)
				for {
					began := time.Now()
					_, err := p.tryCall(answerTime, "tools/call", callAnalyze)
					slowest = max(slowest, time.Since(began))
					if err == nil {
						break
					}
					wire, ok := err.(*rpcError)
					if !ok {
						t.Errorf("no JSON-RPC error: %v", err)
						return
					}
					if r := wire.Data.Reason; r != "unavailable" && r != "peer_lost" && r != "unknown_tool" {
						t.Errorf("refused as %v", wire)
					}
					if refused++; time.Since(killed) > answerTime {
						t.Errorf("still refused %v after the holder was killed: %v", time.Since(killed), err)
						return
					}
					time.Sleep(10 * time.Millisecond)
				}
				t.Logf("serves again %v after the holder was killed; %d calls refused, slowest %v", time.Since(killed).Round(time.Millisecond), refused, slowest.Round(time.Millisecond))
				// The next holder syncs its disk; a call that hangs has the time limit of calls.
				if slowest > bus.DefaultTimeout*2/3 {
					t.Errorf("a call took %v", slowest)
				}
			})
		}
		wg.Wait()
	}
	// The last one leaves in good order.
	_ = all[0].stdin.Close()
	if code := all[0].wait(bustest.Patience); code != 0 {
		t.Errorf("the last one exited with %d", code)
	}
}

// TestStdioJoinsEarly joins a data directory while its holder runs the bus but not yet the
// services, as when desktop clients start together. It answers when the tools are there, because a
// client may list them only once.
func TestStdioJoinsEarly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	users := secret.Dir(filepath.Join(dir, "users"))
	config, err := permission.Issue(users, []permission.User{bustest.Of(t, "text")})
	if err != nil {
		t.Fatal(err)
	}
	nats := bustest.Start(t, bustest.Config{DataDir: dir, Conf: config, Synced: true})
	address := fmt.Sprintf(`{"hostPort":%q,"pid":%d,"command":"stdio","services":["text"]}`, strings.TrimPrefix(nats.URL, "nats://"), os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, "bus.json"), []byte(address), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startPipe(t, "--data-dir", dir)
	p.write(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	m, err := p.tryAwait(500*time.Millisecond, response(`"list"`))
	if err != nil {
		start(t, "text", "--nats", nats.URL, "--nats-nkey", users.Path("text"))
		m = p.await("the list", response(`"list"`))
	}
	if !strings.Contains(string(m.Result), `"analyzeText"`) {
		t.Errorf("the first list is %s", clip(m.raw))
	}
}

// holderOf reads the holder of a data directory.
func holderOf(t *testing.T, dir string) int {
	t.Helper()
	var a struct {
		PID int `json:"pid"`
	}
	raw, err := os.ReadFile(filepath.Join(dir, "bus.json"))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.PID
}

// TestStdioBusIsPrivate has the bus of a desktop's busbar refuse others.
func TestStdioBusIsPrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startPipe(t, "--data-dir", dir)
	p.call("ping", "{}")
	var a struct{ HostPort string }
	raw, err := os.ReadFile(filepath.Join(dir, "bus.json"))
	if err == nil {
		err = json.Unmarshal(raw, &a)
	}
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "bus.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file with the token has mode %v, %v", info.Mode(), err)
	}
	stranger := start(t, "hello", "--nats", (&url.URL{Scheme: "nats", Host: a.HostPort}).String())
	m := p.call("tools/list", "{}")
	if strings.Contains(string(m.Result), "greet") {
		t.Error("a service without a secret is on the bus")
	}
	stranger.kill()
}

// TestStdioQuiet has nothing but MCP on standard output whatever is logged,
// and answers soon after the start.
func TestStdioQuiet(t *testing.T) {
	t.Parallel()
	p := start(t, "busbar", "--log-level", "debug", "stdio", "--data-dir", t.TempDir())
	began := time.Now()
	// EOF right behind the request: it is answered all the same.
	if _, err := io.WriteString(p.stdin, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":`+callAnalyze+"}\n"); err != nil {
		t.Fatal(err)
	}
	_ = p.stdin.Close()
	out, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	if code := p.wait(2 * time.Second); code != 0 {
		t.Errorf("exited with %d", code)
	}
	t.Logf("start, two answers and end in %v", time.Since(began).Round(time.Millisecond))
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2 {
		t.Errorf("%d lines, want 2: %q", len(lines), lines)
	}
	for _, line := range lines {
		if m, err := parseMessage([]byte(line)); err != nil || m.Result == nil {
			t.Errorf("%v: %s", err, line)
		}
	}
	if p.stderr.String() == "" {
		t.Error("nothing was logged at debug level")
	}
}

// TestStdioServiceFails has the services not start: why is said, and nothing else.
func TestStdioServiceFails(t *testing.T) {
	t.Parallel()
	p := start(t, "busbar", "stdio", "--data-dir", t.TempDir(), "--database-url", "mysql://x")
	if code := p.wait(bustest.Patience); code != 1 {
		t.Errorf("exited with %d", code)
	}
	if said := p.stderr.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "the database URL is not one of Postgres") {
		t.Errorf("said %q", said)
	}
}

// TestStdioEnd ends the input, the output, or the process, with a call in
// flight.
func TestStdioEnd(t *testing.T) {
	t.Parallel()
	nats := bustest.Server(t)
	ledger := &testservice.Ledger{}
	serve(t, nats, testservice.New(ledger))
	for _, end := range []struct {
		name   string
		do     func(p *pipe)
		within time.Duration
		// answered says whether the short call in flight still gets its answer.
		answered bool
	}{
		{"input ends", func(p *pipe) { _ = p.stdin.Close() }, 2 * time.Second, true},
		{"SIGTERM", func(p *pipe) { p.signal(syscall.SIGTERM) }, 2 * time.Second, true},
		{"SIGTERM twice", func(p *pipe) {
			p.signal(syscall.SIGTERM)
			p.signal(syscall.SIGTERM)
		}, 2 * time.Second, false},
	} {
		t.Run(end.name, func(t *testing.T) {
			t.Parallel()
			// Calls in flight have a second and a half to end. A machine that stands still may miss
			// that, and tries again.
			var err error
			for round := range 5 {
				if err = stdioEnd(t, nats, ledger, fmt.Sprint(end.name, " ", round), end.within, end.do, end.answered); err == nil {
					return
				}
			}
			t.Error(err)
		})
	}
}

// stdioEnd ends a process that has a short and a long call, and reports whether the short one
// was lost that shall be answered.
func stdioEnd(t *testing.T, nats string, ledger *testservice.Ledger, name string, within time.Duration, end func(p *pipe), answered bool) error {
	t.Helper()
	p := startPipe(t, "--nats", nats)
	p.initialize(legacy)
	short, long := "short "+name, "long "+name
	for id, c := range map[string]struct {
		key string
		ms  int
	}{`"short"`: {short, 500}, `"long"`: {long, 20_000}} {
		p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"slow","arguments":{"key":%q,"ms":%d}}}`, id, c.key, c.ms))
	}
	eventually(t, "both calls run", func() bool {
		return ledger.Runs(short+" started") == 1 && ledger.Runs(long+" started") == 1
	})
	end(p)
	began := time.Now()
	p.wait(within)
	t.Logf("ended after %v", time.Since(began).Round(time.Millisecond))
	if !answered {
		return nil
	}
	eventually(t, "the long call is cancelled", func() bool { return ledger.Runs(long+" cancelled") == 1 })
	m, err := p.tryAwait(answerTime, response(`"short"`))
	if err == nil && m.Error != nil {
		err = m.Error
	}
	if err != nil {
		return fmt.Errorf("the short call failed: %w", err)
	}
	return nil
}
