package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/jackc/pgx/v5"

	_ "github.com/busbar-mcp/busbar/libs/database" // its drivers
	"github.com/busbar-mcp/busbar/test/caller"
	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/ledger"
	"github.com/busbar-mcp/busbar/test/faults/link"
	"github.com/busbar-mcp/busbar/test/faults/load"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
	"github.com/busbar-mcp/busbar/test/fleet"
)

// notHere are parts of docker-compose.yml that no figure is about.
var notHere = []string{"github", "github-2", "planning", "planning-2", "prompt", "prompt-2", "batch", "batch-2", "weather", "weather-2", "prometheus", "grafana"}

// world is one fleet, with the events of a run.
type world struct {
	root, dir        string
	seed             uint64
	full             bool
	workers, streams int
	bugs             string // of those that are planted
	broad, calm      bool   // all doors and kinds of calls; nothing is taken away
	runs             int    // of clients, so far
	old              bool   // the fleet began with the previous release
	length           time.Duration
	result           *result

	fleet                 *fleet.Fleet
	claim                 io.Closer
	toBus, toLedger, toDB *link.Link
	disks                 []string // that are mounted

	mu                              sync.Mutex
	edges, died, notOfEdge, ledgers []oracle.Span
	outages                         []outage
	still                           []outage // what stood still by itself
}

// up starts the fleet, at addresses that nobody uses.
func (w *world) up(ctx context.Context, f figure) error {
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return err
	}
	network, claim, err := fleet.Network()
	if err != nil {
		return err
	}
	w.claim = claim
	log, err := os.Create(filepath.Join(w.dir, "started.log"))
	if err != nil {
		return err
	}
	// PostgreSQL runs as another user.
	for dir := w.dir; len(dir) > len(os.TempDir()); dir = filepath.Dir(dir) {
		_ = os.Chmod(dir, 0o755)
	}
	files := []string{filepath.Join(w.root, "docker-compose.yml"), filepath.Join(w.root, "test/faults/compose.yml")}
	if f.file != "" {
		files = append(files, filepath.Join(w.root, "test/faults", f.file))
	}
	w.fleet, err = fleet.New(ctx, fleet.Options{
		Root: w.root, Dir: w.dir, Profile: "fleet", Files: files,
		Without: slices.DeleteFunc(append(f.without, notHere...), func(part string) bool { return f.broad && strings.HasPrefix(part, "batch") }), Network: network, Out: log,
	})
	if err != nil {
		return err
	}
	at := w.fleet.At
	if w.toBus, err = link.Listen(at("link-edge", "4222"), at("nats-1", "4222"), at("nats-2", "4222"), at("nats-3", "4222")); err != nil {
		return err
	}
	if w.toLedger, err = link.Listen(at("link-ledger", "4222"), at("nats-2", "4222"), at("nats-3", "4222"), at("nats-1", "4222")); err != nil {
		return err
	}
	if w.toDB, err = link.Listen(at("link-database", "5432"), at("database", "5432")); err != nil {
		return err
	}
	if f.prepare != nil {
		if err := f.prepare(ctx, w); err != nil {
			return err
		}
	}
	starting, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	if err := w.fleet.Up(starting); err != nil {
		return err
	}
	return w.usable(starting)
}

// usable waits until calls go through, with effects, at each edge.
func (w *world) usable(ctx context.Context) error {
	for _, edge := range w.addresses() {
		for n := 0; ; n++ {
			uri := fmt.Sprintf("faults:up-%s-%d-%d", edge, time.Now().UnixNano(), n)
			a := caller.REST(ctx, edge, caller.Call{Tool: "create_resource", Arguments: fmt.Sprintf(`{"uri":%q,"text":"up"}`, uri), Key: uri})
			b := caller.REST(ctx, edge, caller.Call{Tool: "look", Arguments: `{"key":"up"}`})
			c := caller.REST(ctx, edge, caller.Call{Tool: "analyzeText", Arguments: `{"text":"up"}`})
			if w.broad && c.OK {
				c = caller.REST(ctx, edge, caller.Call{Tool: "batch", Arguments: `{"calls":[{"name":"look","arguments":{"key":"up"}}]}`})
			}
			if a.OK && b.OK && c.OK {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("calls do not go through at %s: %v; %v; %v", edge, a, b, c)
			case <-time.After(200 * time.Millisecond):
			}
		}
	}
	return nil
}

func (w *world) addresses() []string {
	return []string{w.fleet.At("edge-1", "8000"), w.fleet.At("edge-2", "8000")}
}

// down stops everything; the data stays.
func (w *world) down() error {
	var err error
	if w.fleet != nil {
		err = w.fleet.Down(false)
	}
	for _, k := range []*link.Link{w.toBus, w.toLedger, w.toDB} {
		if k != nil {
			k.Close()
		}
	}
	if w.claim != nil {
		_ = w.claim.Close()
	}
	return errors.Join(err, w.unmount())
}

// away notes that a part was away, or hung, for as long as f runs.
func (w *world) away(part string, f func() error) error {
	s := oracle.Span{From: time.Now()}
	err := f()
	s.To = time.Now().Add(10 * time.Second) // peers notice, connections are made
	w.mu.Lock()
	defer w.mu.Unlock()
	if strings.HasPrefix(part, "edge") {
		w.edges = append(w.edges, s)
	} else {
		w.notOfEdge = append(w.notOfEdge, s)
		if strings.HasPrefix(part, "ledger") || strings.HasPrefix(part, "nats") {
			w.ledgers = append(w.ledgers, s)
		}
	}
	return err
}

// kill kills a part, leaves it away for a while, and starts it.
func (w *world) kill(ctx context.Context, part string, away time.Duration) error {
	return w.away(part, func() error {
		s := oracle.Span{From: time.Now()}
		if err := w.fleet.Signal(part, syscall.SIGKILL); err != nil {
			return err
		}
		s.To = time.Now().Add(time.Second)
		w.mu.Lock()
		if strings.HasPrefix(part, "edge") {
			w.died = append(w.died, s)
		}
		w.mu.Unlock()
		_ = pause(ctx, away)
		return w.fleet.Start(context.WithoutCancel(ctx), part)
	})
}

// hang stops a part where it is for a while.
func (w *world) hang(ctx context.Context, part string, d time.Duration) error {
	return w.away(part, func() error {
		err := w.fleet.Signal(part, syscall.SIGSTOP)
		if err == nil {
			_ = pause(ctx, d)
			err = w.fleet.Signal(part, syscall.SIGCONT)
		}
		return err
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// under has clients make calls while faults happen, and judges both. The calls go on for
// a while after the last fault.
func (w *world) under(ctx context.Context, l load.Load, faults func(context.Context) error) ([]history.Call, error) {
	began := time.Now().Add(-time.Second)
	if l.History == nil {
		l.History = &history.History{}
	}
	l.Seed, l.Broad = w.seed, w.broad
	if l.Edges == nil {
		l.Edges = w.addresses()
	}
	if l.Workers == 0 {
		l.Workers = w.workers
	}
	if l.Think == 0 {
		l.Think = 60 * time.Millisecond
	}
	if l.RetryFor == 0 {
		l.RetryFor = 90 * time.Second
	}
	if l.HeardFor == 0 {
		l.HeardFor = 30 * time.Second
	}
	stop := w.result.watchLoad()
	defer stop()
	calling, enough := context.WithCancel(ctx)
	defer enough()
	called := make(chan struct{})
	go func() { defer close(called); l.Run(calling) }()
	end := time.After(w.length)
	failed := faults(ctx)
	if failed == nil {
		select {
		case <-end:
		case <-ctx.Done():
		}
		_ = pause(ctx, 2*time.Second)
	}
	enough()
	<-called
	if failed != nil {
		return nil, failed
	}
	calls := l.History.Calls()
	w.runs++
	if err := l.History.Write(filepath.Join(w.dir, fmt.Sprintf("history-%d.jsonl", w.runs))); err != nil {
		return nil, err
	}
	r, found, err := w.judged(ctx, calls, began)
	if err != nil {
		return nil, err
	}
	w.result.found(found...)
	w.result.counts(r)
	return calls, nil
}

// judged returns the facts of a run, and the findings. A trail that still lacks an event is read
// again for a while, because an edge that stood still, or a slow disk, may deliver it late.
func (w *world) judged(ctx context.Context, calls []history.Call, began time.Time) (r oracle.Run, found []oracle.Finding, err error) {
	late := func(f oracle.Finding) bool { return f.Oracle == oracle.Begun || f.Oracle == oracle.Ended }
	for deadline := time.Now().Add(trailTime); ; {
		r = oracle.Run{
			Calls: calls, EdgesKilled: w.edges, ServicesKilled: w.notOfEdge, LedgersKilled: w.ledgers, EdgesDied: w.died,
			Strict: w.broad, Away: w.spans(&w.outages), Still: w.spans(&w.still),
		}
		if r.Trail, err = w.trail(ctx, began); err != nil {
			return r, nil, err
		}
		if r.Ran, err = ledger.Read(filepath.Join(w.fleet.Volume("ledger"), "runs")); err != nil {
			return r, nil, err
		}
		r.Ran = slices.DeleteFunc(r.Ran, func(e ledger.Run) bool { return e.Began.Before(began.Add(time.Second)) })
		if r.Kept, err = w.kept(ctx); err != nil {
			return r, nil, err
		}
		found = oracle.Check(r)
		if !slices.ContainsFunc(found, late) || time.Now().After(deadline) || pause(ctx, 3*time.Second) != nil {
			return r, found, nil
		}
	}
}

const databaseURL = "postgres://busbar:busbar@%s/busbar?sslmode=disable"

// database connects to Postgres as an operator may, past all services.
func (w *world) database(ctx context.Context) (*pgx.Conn, error) {
	return pgx.Connect(ctx, fmt.Sprintf(databaseURL, w.fleet.At("database", "5432")))
}

// kept are the resources that are stored, in either database.
func (w *world) kept(ctx context.Context) (map[string]bool, error) {
	driver, at := "pgx", fmt.Sprintf(databaseURL, w.fleet.At("database", "5432"))
	if file := filepath.Join(w.fleet.Volume("resource"), "resource.db"); exists(file) {
		driver, at = "sqlite", "file:"+file+"?mode=ro"
	}
	db, err := sql.Open(driver, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT uri FROM resource")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	all := map[string]bool{}
	for rows.Next() {
		var uri string
		if err := rows.Scan(&uri); err != nil {
			return nil, err
		}
		all[uri] = true
	}
	return all, rows.Err()
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// busbar runs the command as the operator of the fleet.
func (w *world) busbar(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, w.fleet.Program("busbar"), args...)
	cmd.Env = []string{"HOME=" + w.dir, "BUSBAR_URL=http://" + w.addresses()[0], "BUSBAR_TIMEOUT=0", "BUSBAR_DATABASE_URL=" + fmt.Sprintf(databaseURL, w.fleet.At("database", "5432"))}
	var said, out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("busbar %s: %w: %s%s", strings.Join(args, " "), err, said.String(), out.String())
	}
	return out.Bytes(), nil
}

// trailTime is how long the trail may take to have what is on its way to it, and the command
// to be answered.
const trailTime = 2 * time.Minute

// asked is busbar, tried again for a while: an edge refuses it, truthfully, while NATS or the
// audit service stands still.
func (w *world) asked(ctx context.Context, args ...string) (out []byte, err error) {
	for deadline := time.Now().Add(trailTime); ; {
		if out, err = w.busbar(ctx, args...); err == nil || time.Now().After(deadline) || pause(ctx, time.Second) != nil {
			return out, err
		}
	}
}

// trail returns the events of the counted tools, once the trail has those on their way. Events of a
// reader that lost its server come to another reader after 30 s.
func (w *world) trail(ctx context.Context, since time.Time) (rows []oracle.Row, err error) {
	for deadline := time.Now().Add(3 * time.Minute); ; {
		waits, _, err := w.stream(ctx, "AUDIT")
		if err != nil {
			return nil, err
		}
		if waits.State.Messages == 0 {
			break
		}
		if time.Now().After(deadline) {
			w.result.found(oracle.Finding{Oracle: oracle.Ended, Text: fmt.Sprintf("%d messages of the trail are not taken from the bus", waits.State.Messages)})
			break
		}
		_ = pause(ctx, time.Second)
	}
	before := -1
	for range 60 {
		rows = []oracle.Row{}
		for _, tool := range oracle.Counted {
			out, err := w.asked(ctx, "audit", "export", "--name", tool, "--since", since.UTC().Format(time.RFC3339), "--data-dir", filepath.Join(w.dir, "parts/edge-1/data"))
			if err != nil {
				return nil, err
			}
			lines := bufio.NewScanner(bytes.NewReader(out))
			lines.Buffer(nil, 1<<20)
			for lines.Scan() {
				var r oracle.Row
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					return nil, fmt.Errorf("the trail has the line %q: %w", lines.Text(), err)
				}
				rows = append(rows, r)
			}
		}
		if len(rows) == before {
			return rows, nil
		}
		before = len(rows)
		_ = pause(ctx, 3*time.Second)
	}
	return nil, errors.New("the trail goes on growing although nobody calls")
}
