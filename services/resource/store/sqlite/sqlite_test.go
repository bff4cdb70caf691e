package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/sqlite"
	"github.com/busbar-mcp/busbar/services/resource/store/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) func() store.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "resource.db"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		// One process has the file: a second store is the same.
		return func() store.Store { return s }
	})
}

func TestReopened(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "resource.db")
	for i := range 2 {
		s, err := sqlite.Open(t.Context(), file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			storetest.Make(t, s, "", "a:1", "kept")
		} else if _, c, err := s.Read(t.Context(), "", "a:1"); err != nil || string(c.Bytes) != "kept" {
			t.Errorf("%q %v", c.Bytes, err)
		}
		s.Close()
	}
}
