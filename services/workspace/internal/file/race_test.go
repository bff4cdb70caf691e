package file_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const secret = "SECRET"

// world is a root with a secret file next to it.
func world(t testing.TB) (top string, at func(path string) root.Place) {
	t.Helper()
	top = t.TempDir()
	for _, d := range []string{"root/sub", "outside"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	put(t, filepath.Join(top, "outside", "x"), secret)
	put(t, filepath.Join(top, "root", "sub", "x"), "inside")
	rs, err := root.Open([]string{"main=" + filepath.Join(top, "root")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	v, err := rs.View("", nil)
	if err != nil {
		t.Fatal(err)
	}
	return top, func(path string) root.Place {
		p, err := v.Find(path)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// swap makes a name in the root a directory and a link out of it in turn, until the
// test ends.
func swap(t *testing.T, top string) {
	t.Helper()
	stop := make(chan struct{})
	var swapping sync.WaitGroup
	name, dir, link := filepath.Join(top, "root", "sub"), filepath.Join(top, "root", "sub-dir"), filepath.Join(top, "root", "sub-link")
	if err := os.Symlink("../outside", link); err != nil {
		t.Fatal(err)
	}
	swapping.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(name, dir)
			_ = os.Rename(link, name)
			_ = os.Rename(name, link)
			_ = os.Rename(dir, name)
		}
	})
	t.Cleanup(func() {
		close(stop)
		swapping.Wait()
	})
}

// While a directory becomes a link out of the root and back, every file read is in the root.
func TestSwapWhileReading(t *testing.T) {
	t.Parallel()
	top, at := world(t)
	swap(t, top)
	read := 0
	for i, begun := 0, time.Now(); i < 1000 || read == 0 && time.Since(begun) < bustest.Patience; i++ { // the swapping goroutine may be delayed
		c, err := file.Read(at("sub/x"))
		if err == nil {
			read++
		}
		if strings.Contains(string(c.Data), secret) {
			t.Fatal("a file outside of the root was read")
		}
		if i%10 != 0 {
			continue
		}
		found, err := file.Search(t.Context(), at("."), file.Query{Pattern: secret, Limit: 10})
		if err == nil && len(found.Matches) > 0 {
			t.Fatalf("a file outside of the root was searched: %+v", found)
		}
	}
	if read == 0 {
		t.Error("no read met the directory")
	}
}

// While a directory becomes a link out of the root and back, nothing outside of it
// is changed, made, moved or removed.
func TestSwapWhileWriting(t *testing.T) {
	t.Parallel()
	top, at := world(t)
	swap(t, top)
	written := 0
	for i, begun := 0, time.Now(); i < 60 || written == 0 && time.Since(begun) < bustest.Patience; i++ {
		_, err := file.Change(t.Context(), at("sub/x"), "", func([]byte) ([]byte, error) { return []byte("changed"), nil })
		if err == nil {
			written++
		}
		_, _ = file.Change(t.Context(), at("sub/new/y"), "", func([]byte) ([]byte, error) { return []byte("changed"), nil })
		_ = file.Move(t.Context(), at("sub/new/y"), at("sub/z"))
		_, _ = file.Delete(t.Context(), at("sub/new"), "", true)
		_, _ = file.Delete(t.Context(), at("sub/z"), "", false)
	}
	if written == 0 {
		t.Error("no write met the directory")
	}
	entries, err := os.ReadDir(filepath.Join(top, "outside"))
	if err != nil || len(entries) != 1 {
		t.Errorf("outside of the root there is %v: %v", entries, err)
	}
	if data, err := os.ReadFile(filepath.Join(top, "outside", "x")); err != nil || string(data) != secret {
		t.Errorf("outside of the root: %q %v", data, err)
	}
}

// If many callers change a file concurrently, each sees the result of the previous one.
func TestChangesAreInTurn(t *testing.T) {
	t.Parallel()
	_, at := world(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := file.Change(t.Context(), at("sub/count"), "", func(before []byte) ([]byte, error) { return append(before, '.'), nil })
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if c, err := file.Read(at("sub/count")); err != nil || len(c.Data) != 20 {
		t.Errorf("%q %v", c.Data, err)
	}
	// No temporary files are left.
	if all, _, err := file.List(at("sub"), "", 10); err != nil || len(all) != 2 {
		t.Errorf("%v %v", all, err)
	}
}

// A refused change leaves the file unchanged, without a trace.
func TestRefusedChange(t *testing.T) {
	t.Parallel()
	_, at := world(t)
	refusal := errors.New("refused")
	if _, err := file.Change(t.Context(), at("sub/new/deep/x"), "", func([]byte) ([]byte, error) { return nil, refusal }); !errors.Is(err, refusal) {
		t.Error(err)
	}
	if all, _, err := file.List(at("sub"), "", 10); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
}

// FuzzApply: after an edit its text is there, and nothing else has changed.
func FuzzApply(f *testing.F) {
	f.Add("one two three", "two", "2", false)
	f.Add("aaaa", "aa", "b", true)
	f.Fuzz(func(t *testing.T, text, before, after string, all bool) {
		got, err := file.Apply(context.Background(), text, []file.Edit{{OldText: before, NewText: after, All: all}})
		if err != nil {
			return
		}
		if all {
			if got != strings.ReplaceAll(text, before, after) {
				t.Errorf("%q", got)
			}
			return
		}
		head, tail, _ := strings.Cut(text, before)
		if got != head+after+tail {
			t.Errorf("%q", got)
		}
	})
}

// The time limit ends a search in an endless line, whatever the expression.
func TestSearchEnds(t *testing.T) {
	t.Parallel()
	top, at := world(t)
	put(t, filepath.Join(top, "root", "long.txt"), strings.Repeat("a", 4<<20))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	found, err := file.Search(ctx, at("long.txt"), file.Query{Pattern: strings.Repeat(".{0,300}", 5) + "[bc]", Regexp: true, Limit: 1})
	if err != nil || len(found.Matches) != 0 || found.Why == "" {
		t.Errorf("%+v %v: want a word about the time", found, err)
	}
}

// The cost of a plain search hardly depends on the text: one that almost matches everywhere takes
// only a few times as long as one that never matches. A search whose call has ended finds nothing.
func TestPlainSearchIsLinear(t *testing.T) {
	top, at := world(t)
	put(t, filepath.Join(top, "root", "long.txt"), strings.Repeat("a", 1<<20))
	cost := func(query string) time.Duration {
		least := time.Hour
		for range 5 {
			begin := time.Now()
			if found, err := file.Search(t.Context(), at("long.txt"), file.Query{Pattern: query, Limit: 1}); err != nil || len(found.Matches) != 0 || found.Why != "" {
				t.Fatalf("%+v %v", found, err)
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	if worst, usual := cost(strings.Repeat("a", 999)+"b"), cost("zz"); worst > 50*usual {
		t.Errorf("a text that almost matches costs %d times another one", worst/usual)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if found, err := file.Search(over, at("long.txt"), file.Query{Pattern: "a", Limit: 1}); !errors.Is(err, context.Canceled) || len(found.Matches) != 0 {
		t.Errorf("after its call: %+v %v", found, err)
	}
}
