package access_test

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// BenchmarkCondition is the cost of a decision on a call: without a condition, with one
// that does not read the arguments, with one that reads them, and with three that do.
func BenchmarkCondition(b *testing.B) {
	const args = `args.uri.startsWith("team://" + principal.tenant)`
	for _, c := range []struct {
		name string
		when []string
	}{
		{"none", nil}, {"principal", []string{`principal.tenant == "acme"`}}, {"arguments", []string{args}}, {"three", []string{args, `size(args.text) > 0`, args + " || false"}},
	} {
		file := "roles: {a: {allow: [\"*\"]}}\nprincipals: {anna: {tenant: acme, roles: [a]}}\nconditions:\n- {on: tools/other, when: 'true'}\n"
		for _, when := range c.when {
			file += fmt.Sprintf("- {on: tools/write, when: '%s'}\n", when)
		}
		path := filepath.Join(b.TempDir(), "access.yaml")
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			b.Fatal(err)
		}
		live, err := access.Open(path, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(live.Close)
		for _, size := range []int{100, 10_000} {
			v := gateway.View{
				Call:      &gateway.Call{Method: mcp.MethodToolsCall, Name: "write", Arguments: []byte(`{"uri":"team://acme/1","n":1,"tags":["a","b"],"text":"` + strings.Repeat("x", size) + `"}`)},
				Principal: gateway.Principal{Name: "anna", Tenant: "acme"},
			}
			b.Run(fmt.Sprintf("%s/%dB", c.name, size), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := live.Authorize(b.Context(), v); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
