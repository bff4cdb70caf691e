package audit_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/audit"
)

// A second instance with its own database is refused, so that no two instances each have
// a part of the trail. One on the same database joins.
func TestB10SecondTrailIsRefused(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		w.serve(t, cfg)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		join := func(cfg audit.Env) error {
			s, err := audit.New(ctx, cfg)
			if err != nil {
				t.Fatal(err)
			}
			r, err := s.Start(ctx, bustest.Connect(t, w.url))
			if err != nil {
				return err
			}
			return r.Stop(ctx)
		}
		other := cfg
		other.DatabaseURL, other.DataDir = "", t.TempDir()
		if err := join(other); err == nil {
			t.Error("an instance with a database of its own joins")
		} else if text := err.Error(); !strings.Contains(text, "service audit already runs on another database") || !strings.Contains(text, "--database-url") {
			t.Errorf("refused with %q", text)
		}
		if cfg.DatabaseURL != "" { // a file can have only one instance
			if err := join(cfg); err != nil {
				t.Errorf("an instance on the same database is refused: %v", err)
			}
		}
		w.send(t, "acme", 3)
		if r := w.settled(t); len(r.Chains) != 1 || r.Chains[0].Last != 3 {
			t.Errorf("the trail has come to %+v", r)
		}
	})
}
