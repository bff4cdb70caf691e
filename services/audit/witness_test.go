package audit_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/audit/trail"
)

// The bus loses its disk, and with it the keys that sign. That does not count as
// tampering, and the keys come back by themselves.
func TestD2KeysAreGoneFromTheBus(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		cfg.Checkpoint = 50 * time.Millisecond
		// An earlier instance, with its own key, has signed.
		earlier := cfg
		earlier.Key = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
		stop, _ := w.serve(t, earlier)
		signed := func(tenant string, n int64) {
			t.Helper()
			bustest.Eventually(t, "all is signed", func() bool {
				for _, c := range w.settled(t).Chains {
					if c.Tenant == tenant {
						return c.Signed == n
					}
				}
				return false
			})
		}
		w.send(t, "acme", 3)
		signed("acme", 3)
		stop()
		w.serve(t, cfg)
		w.send(t, "beta", 2)
		signed("beta", 2)

		nc, err := nats.Connect(w.url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if err := js.DeleteKeyValue(t.Context(), "audit"); err != nil {
			t.Fatal(err)
		}
		conn := bustest.Connect(t, w.url) // an edge makes the bucket again
		if r := w.settled(t); !r.OK {
			t.Errorf("%+v", r)
		}
		bucket := conn.Bucket("audit")
		count := func(prefix string) (n int) {
			_ = bucket.Each(t.Context(), prefix, func(_ string, value []byte) {
				if !bytes.Equal(value, nil) {
					n++
				}
			})
			return n
		}
		bustest.Eventually(t, "keys and heads are put again", func() bool { return count("key.") == 2 && count("head.") == 2 })
		w.send(t, "acme", 1)
		signed("acme", 4)
	})
}

// A reader of one tenant's trail learns nothing of another's.
func TestH5TrailOfOneTenant(t *testing.T) {
	on(t, func(t *testing.T, w *world, cfg audit.Env) {
		w.serve(t, cfg)
		w.send(t, "acme", 2)
		w.send(t, "", 1)
		w.settled(t)
		var p audit.Page
		if err := w.ask(t.Context(), "show", map[string]string{"id": "C0000001", "tenant": "acme"}, &p); err != nil || len(p.Events) != 1 {
			t.Errorf("%+v %v", p, err)
		}
		for _, tenant := range []string{"beta", trail.NoTenant} {
			if err := w.ask(t.Context(), "show", map[string]string{"id": "C0000001", "tenant": tenant}, &p); !fault.Is(err, fault.UnknownResource) {
				t.Errorf("%+v %v", p, err)
			}
		}
		for tenant, want := range map[string]string{"acme": "acme", trail.NoTenant: ""} {
			var r trail.Report
			if err := w.ask(t.Context(), "verify", map[string]string{"tenant": tenant}, &r); err != nil || len(r.Chains) != 1 || r.Chains[0].Tenant != want {
				t.Errorf("%+v %v", r, err)
			}
		}
	})
}
