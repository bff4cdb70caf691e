package watch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
	"github.com/busbar-mcp/busbar/services/workspace/internal/watch"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// Directories count once however often they are moved, and changes of files in them are reported
// under their new names.
func TestMovedDirectories(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	const dirs = 400
	for i := range dirs {
		if err := os.MkdirAll(filepath.Join(top, "dir0", fmt.Sprint(i)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	rs, err := root.Open([]string{"main=" + top})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rs.Close() })
	var mu sync.Mutex
	var heard []string
	partly := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- watch.Watch(ctx, rs.All()[0], func(paths []string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, paths...)
		}, func(err error) { partly <- err })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	tells := func(path string) {
		t.Helper()
		n := 0
		bustest.Eventually(t, path+" is told of", func() bool {
			n++ // a change before the watch began, or while it was starting, is not reported
			if err := os.WriteFile(filepath.Join(top, path), fmt.Append(nil, n), 0o600); err != nil {
				t.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(heard, path)
		})
	}
	tells("dir0/399/x")
	for i := range 15 { // 6,000 moved directories, if each counted again
		if err := os.Rename(filepath.Join(top, fmt.Sprint("dir", i)), filepath.Join(top, fmt.Sprint("dir", i+1))); err != nil {
			t.Fatal(err)
		}
		tells(fmt.Sprintf("dir%d/7/x", i+1))
	}
	tells("dir15/7/last") // and with it all earlier changes
	mu.Lock()
	heard = nil
	mu.Unlock()
	tells("dir15/399/x")
	mu.Lock()
	defer mu.Unlock()
	for _, path := range heard {
		if path != "dir15/399/x" && path != "dir15/7/last" {
			t.Errorf("%s is told of", path)
		}
	}
	select {
	case err := <-partly:
		t.Error(err)
	default:
	}
}
