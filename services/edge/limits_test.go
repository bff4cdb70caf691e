package edge_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// byToken knows two principals by their tokens.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer != "anna" && c.Bearer != "bert" {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "show a token")
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme"}, nil
}

// annas are limits of one principal.
type annas struct{}

func (annas) Limits(v gateway.View) limit.Applied {
	if v.Principal.Name != "anna" {
		return limit.Applied{}
	}
	return limit.Applied{Principal: limit.Limits{Rate: limit.Rate{Count: 60, Per: time.Minute}, Concurrent: 3}}
}

// A caller gets what is left of its own limits, over all edges, and of nobody else's.
func TestLimitsLeft(t *testing.T) {
	t.Parallel()
	w := edgetest.StartBus(t)
	var doors []http.Handler
	for range 2 {
		e := w.Join(t, edgetest.As(byToken{}), func(cfg *edge.Config) { cfg.Limits, cfg.Audit = annas{}, edge.Audit{Off: true, Token: "0perator"} })
		doors = append(doors, e.Handler(door.Guard{Loopback: true}))
	}
	ask := func(at http.Handler, query string, header ...string) (int, http.Header, string) {
		got := ask(t, at, http.MethodGet, "/access/limits"+query, "", header...)
		return got.Code, got.Result().Header, got.Body.String()
	}
	var said struct {
		Principal string
		Limits    []limit.Left
	}
	// Asking counts for nothing, however often. Capacity at an edge that answers too
	// late, or was taken for gone, counts as used, so on a slow machine the test asks
	// again until it is back.
	all := func(at http.Handler, query string, header ...string) (body string) {
		t.Helper()
		defer func() {
			if t.Failed() {
				t.Log(body)
			}
		}()
		bustest.Eventually(t, "all is left", func() bool {
			var code int
			code, _, body = ask(at, query, header...)
			return code == http.StatusOK && strings.Contains(body, `"left":1`)
		})
		return body
	}
	if err := json.Unmarshal([]byte(all(doors[0], "", "Authorization", "Bearer anna")), &said, json.MatchCaseInsensitiveNames(true)); err != nil || said.Principal != "anna" || len(said.Limits) != 2 {
		t.Fatalf("%+v %v", said, err)
	}
	if one := said.Limits[0]; one.Of != "principal" || one.Limit != "60/min" || one.Used != 0 || one.Left != 1 || one.ResetMS != 0 {
		t.Errorf("%+v", one)
	}
	for i, at := range doors {
		if body := all(at, "", "Authorization", "Bearer anna"); strings.Contains(body, "bert") {
			t.Errorf("edge %d: %s", i, body)
		}
		all(at, "?as=anna&tenant=acme", "Busbar-Audit", "0perator")
		if code, _, body := ask(at, "?as=anna&tenant=acme", "Authorization", "Bearer bert"); code != http.StatusForbidden {
			t.Errorf("edge %d, another: %d %s", i, code, body)
		}
		if code, _, body := ask(at, "", "Authorization", "Bearer bert"); code != http.StatusOK || strings.Contains(body, "60/min") {
			t.Errorf("edge %d, without limits: %d %s", i, code, body)
		}
		if code, _, body := ask(at, ""); code != http.StatusUnauthorized {
			t.Errorf("edge %d, nobody: %d %s", i, code, body)
		}
	}
}
