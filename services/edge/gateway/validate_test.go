package gateway_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestB1ResultsAreChecked: in development the log reports results that do not match the schema of
// their tool, and the result is passed on unchanged.
func TestB1ResultsAreChecked(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	const schema = `{"type":"object","properties":{"analysis":{"type":"array","items":{"type":"integer"}}}}`
	s := service.New("liar")
	service.AddTool(s, service.Tool{Name: "lie", ReadOnly: true, OutputSchema: []byte(schema)},
		func(_ context.Context, _ *service.Call, arguments []byte) (jsontext.Value, error) {
			return arguments, nil
		})
	edgetest.Serve(t, bustest.Connect(t, url), s)
	for _, checks := range []bool{true, false} {
		log := &bustest.Log{}
		w := startOn(t, url, func(_ *world, cfg *gateway.Config) {
			cfg.CheckResults, cfg.Logger = checks, slog.New(slog.NewTextHandler(log, nil))
		})
		bustest.Eventually(t, "the tool is there", func() bool {
			_, err := w.gateway.Do(t.Context(), toolCall("lie", `{"analysis":[1]}`), nil)
			return err == nil
		})
		if strings.Contains(log.String(), "forbids") {
			t.Errorf("a good result: %s", log)
		}
		got := string(w.works(t, toolCall("lie", `{"analysis":{"a":1}}`)).Result.GetJson())
		if !strings.Contains(got, `{"analysis":{"a":1}}`) {
			t.Errorf("the result is %s", got)
		}
		if said := strings.Contains(log.String(), "tool lie returns what its schema forbids") && strings.Contains(log.String(), "/analysis"); said != checks {
			t.Errorf("checks: %v; log: %s", checks, log)
		}
	}
}
