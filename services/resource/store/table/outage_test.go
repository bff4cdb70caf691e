package table_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/storetest"
)

// slack is the extra time that a loaded machine may take beyond the 250 ms that a call waits for a
// connection. Together they are less than the 5 s limit of a call.
const slack = 3 * time.Second

// away requires that calls fail as they should while the database is away.
func away(t *testing.T, s store.Store, what string) {
	t.Helper()
	least := time.Hour // the fastest of several tries: the machine may be suspended in one
	for range 5 {
		begin := time.Now()
		_, err := s.Create(t.Context(), store.Resource{URI: "x:1", Name: "n"}, storetest.Text("x"), database.Key{})
		least = min(least, time.Since(begin))
		var f *fault.Error
		if !errors.As(err, &f) || f.Reason != fault.Unavailable || f.Executed != fault.No || f.RetryAfter == 0 {
			t.Errorf("%s: %v", what, err)
		}
		if _, _, err := s.Read(t.Context(), "", "x:1", nil); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: read: %v", what, err)
		}
	}
	if least > 250*time.Millisecond+slack {
		t.Errorf("%s: refused after %v", what, least)
	}
}

func TestServerAway(t *testing.T) {
	t.Parallel()
	server := databasetest.Own(t)
	s := open(t, database.Config{URL: server.URL() + "&pool_max_conns=4"})
	back := func(what string) {
		t.Helper()
		bustest.Eventually(t, what, func() bool {
			_, _, err := s.List(t.Context(), "", store.Query{}, "", 1)
			return err == nil
		})
		storetest.Make(t, s, "", fmt.Sprintf("back:%d", time.Now().UnixNano()), "x")
	}
	server.Freeze()
	away(t, s, "frozen")
	server.Thaw()
	back("it thaws")
	server.Kill()
	away(t, s, "killed")
	server.Start(t)
	back("it is back")
}

// TestD8ServedAgainAfterALongOutage: callers that wait for the database are served as soon as it
// answers, in their order, and not refused because all come at once.
func TestD8ServedAgainAfterALongOutage(t *testing.T) {
	t.Parallel()
	server := databasetest.Own(t)
	s := open(t, database.Config{URL: server.URL()})
	storetest.Make(t, s, "", "before:1", "x")
	// If the machine is suspended for as long as callers wait, all of them are refused.
	var refused int64
	for round := range 3 {
		if refused = servedAgain(t, server, s, round); refused <= outageCallers/3 {
			return
		}
	}
	t.Errorf("%d refusals after the database had answered, of %d callers", refused, outageCallers)
}

const outageCallers = 300

// servedAgain stops the database under many callers, restarts it, and returns how many of them were
// refused after it had answered one.
func servedAgain(t *testing.T, server *databasetest.Server, s store.Store, round int) int64 {
	t.Helper()
	server.Kill()
	away(t, s, "killed")
	var answers, done atomic.Int64
	var wg sync.WaitGroup
	for n := range outageCallers {
		wg.Go(func() {
			for {
				_, err := s.Create(t.Context(), store.Resource{URI: fmt.Sprintf("d8:%d/%d", round, n), Name: "n"}, storetest.Text("x"), database.Key{})
				answers.Add(1)
				if err == nil {
					done.Add(1)
					return
				}
				f := fault.From(err)
				if f.Reason != fault.Unavailable || f.Executed != fault.No {
					t.Errorf("%v", err)
					return
				}
				select {
				case <-time.After(f.RetryAfter):
				case <-t.Context().Done():
					return
				}
			}
		})
	}
	bustest.Eventually(t, "every caller was refused", func() bool { return answers.Load() >= 2*outageCallers })
	server.Start(t)
	begin := time.Now()
	bustest.Eventually(t, "the first caller is served", func() bool { return done.Load() > 0 })
	first, before := time.Since(begin), answers.Load()
	wg.Wait()
	refused := answers.Load() - before - outageCallers + 1
	t.Logf("after the server answered: the first served in %v, the last of %d in %v, %d refused", first, outageCallers, time.Since(begin), refused)
	return refused
}

// TestKilledUnderWrites: acknowledged writes are there, and the others are truthfully reported as
// unknown or not executed.
func TestKilledUnderWrites(t *testing.T) {
	t.Parallel()
	server := databasetest.Own(t, "fsync=on")
	s := open(t, database.Config{URL: server.URL()})
	var mu sync.Mutex
	said := map[string]fault.Executed{} // yes for acknowledged
	var count atomic.Int64
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		var acknowledged atomic.Int64
		for range 6 {
			wg.Go(func() {
				for ctx.Err() == nil {
					uri := fmt.Sprintf("k:%d", count.Add(1))
					_, err := s.Create(t.Context(), store.Resource{URI: uri, Name: "n"}, storetest.Text("x"), database.Key{})
					executed := fault.Yes
					if err != nil {
						executed = fault.From(err).Executed
						if !fault.Is(err, fault.Unavailable) {
							t.Error(err)
						}
						time.Sleep(10 * time.Millisecond) // each is checked at the end
					} else {
						acknowledged.Add(1)
					}
					mu.Lock()
					said[uri] = executed
					mu.Unlock()
				}
			})
		}
		bustest.Eventually(t, "writes succeed", func() bool { return acknowledged.Load() > 20 })
		server.Kill()
		cancel()
		wg.Wait()
		server.Start(t)
		bustest.Eventually(t, "it is back", func() bool {
			_, err := s.Stat(t.Context(), "", "k:1") // the write may have been refused
			return err == nil || fault.Is(err, fault.UnknownResource)
		})
	}
	counts := map[fault.Executed]int{}
	for uri, executed := range said {
		counts[executed]++
		var err error
		bustest.Eventually(t, "it can be looked at", func() bool {
			_, err = s.Stat(t.Context(), "", uri)
			return !fault.Is(err, fault.Unavailable) // no connection in 250 ms
		})
		if executed == fault.Yes && err != nil || executed == fault.No && !fault.Is(err, fault.UnknownResource) {
			t.Errorf("%s was said to be executed: %s; %v", uri, executed, err)
		}
	}
	t.Logf("%v", counts)
}

func TestNoFreeConnection(t *testing.T) {
	t.Parallel()
	url := databasetest.Postgres(t)
	s := open(t, database.Config{URL: url + "&pool_max_conns=2"})
	storetest.Make(t, s, "", "x:1", "x")
	other, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	lock, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.Exec(t.Context(), "SELECT 1 FROM resource FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			y := storetest.Text("y")
			if _, err := s.Update(t.Context(), "", "x:1", 0, store.Change{Content: &y}, database.Key{}); err != nil {
				t.Error(err)
			}
		})
	}
	bustest.Eventually(t, "both connections wait for the row", func() bool {
		var n int
		// Inside a transaction the view would not change.
		watch, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = watch.Close(context.Background()) }()
		err = watch.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()").Scan(&n)
		return err == nil && n == 2
	})
	least := time.Hour
	for try := 0; try < 3 && least > 250*time.Millisecond+slack; try++ { // the machine may be suspended in one
		begin := time.Now()
		_, err := s.Create(t.Context(), store.Resource{URI: "x:2", Name: "n"}, storetest.Text("x"), database.Key{})
		if least = min(least, time.Since(begin)); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
	}
	if least > 250*time.Millisecond+slack {
		t.Errorf("refused after %v", least)
	}
	if err := lock.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	// A busy database is not away: no call waits for a probe.
	storetest.Make(t, s, "", "x:2", "x")
}

// TestLostTransactions: a transaction that Postgres rolls back in favour of another one runs again;
// a read-only server refuses writes, and still reads.
func TestLostTransactions(t *testing.T) {
	t.Parallel()
	url := databasetest.Postgres(t)
	s := open(t, database.Config{URL: url, Wait: patient})
	storetest.Make(t, s, "", "x:1", "x")
	exec := func(statement string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	// A sequence is not rolled back, so it counts the attempts.
	exec(`CREATE SEQUENCE attempts; CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('attempts') % 3 <> 0 THEN RAISE EXCEPTION 'lost' USING ERRCODE = TG_ARGV[0]; END IF; RETURN NEW; END $$;
		CREATE TRIGGER lose BEFORE UPDATE ON resource FOR EACH ROW EXECUTE FUNCTION lose('40001')`)
	title := "T"
	if r, err := s.Update(t.Context(), "", "x:1", 1, store.Change{Title: &title}, database.Key{}); err != nil || r.Revision != 2 {
		t.Errorf("the third attempt should do: %+v %v", r, err)
	}
	exec(`CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost' USING ERRCODE = '40P01'; END $$`)
	_, err := s.Update(t.Context(), "", "x:1", 2, store.Change{Title: &title}, database.Key{})
	if f := fault.From(err); f.Reason != fault.Unavailable || f.Executed != fault.No {
		t.Errorf("always lost: %v", err)
	}
	exec(`CREATE OR REPLACE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '25006'; END $$`)
	if _, err := s.Update(t.Context(), "", "x:1", 2, store.Change{Title: &title}, database.Key{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("read-only: %v", err)
	}
	if r, err := s.Stat(t.Context(), "", "x:1"); err != nil || r.Revision != 2 {
		t.Errorf("%+v %v", r, err)
	}
}
