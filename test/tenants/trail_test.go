package tenants

import (
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// auditors lets principals of one name read the trail of their tenant.
type auditors struct{ gateway.Open }

func (auditors) ReadsTrail(p gateway.Principal) bool { return p.Name == "auditor" }

// A caller that may read the trail reads its own tenant's.
func TestTrailOfATenant(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, auditors{})
	for _, token := range []string{ada, bob, ":operator", "-:dash"} {
		w.must(t, token, "append", `{"key":"of `+token+`"}`)
	}
	list := func(token, query string) answer { return w.do(t, token, "GET", "/audit/list?limit=1000"+query, "") }
	for token, own := range map[string]string{"acme:auditor": ada, "beta:auditor": bob, ":auditor": ":operator"} {
		bustest.Eventually(t, token+" reads its tenant's", func() bool { return list(token, "").says("of " + own) })
		for _, query := range []string{"", "&tenant=" + strings.SplitN(own, ":", 2)[0], "&all=true", "&principal=bob", "&principal=ada", "&principal=operator"} {
			for _, other := range []string{ada, bob, ":operator", "-:dash"} {
				if a := list(token, query); other != own && a.says("of "+other) {
					t.Errorf("%s reads with %q %s", token, query, a.body)
				}
			}
		}
		for _, query := range []string{"&tenant=gamma", "&tenant=" + map[bool]string{true: "beta", false: "acme"}[own != bob]} {
			if a := list(token, query); a.status != http.StatusForbidden {
				t.Errorf("%s asks for %s: %d %s", token, query, a.status, a.body)
			}
		}
	}
	var event string
	bustest.Eventually(t, "the event is there", func() bool {
		_, rest, ok := strings.Cut(list("beta:auditor", "").body, `"id":"`)
		event, _, _ = strings.Cut(rest, `"`)
		return ok
	})
	asUnknown(t, "show", "acme:auditor", event, never(event), func(id string) answer { return w.do(t, "acme:auditor", "GET", "/audit/show?id="+id, "") })
	if a := w.do(t, "beta:auditor", "GET", "/audit/show?id="+event, ""); a.status != http.StatusOK {
		t.Errorf("its own: %d %s", a.status, a.body)
	}
	for token, want := range map[string]int{ada: http.StatusForbidden, bob: http.StatusForbidden, nobody: http.StatusUnauthorized, "-:auditor": http.StatusForbidden} {
		for _, path := range []string{"list", "show?id=" + event, "verify"} {
			if a := w.do(t, token, "GET", "/audit/"+path, ""); a.status != want {
				t.Errorf("%q reads %s: %d %s", token, path, a.status, a.body)
			}
		}
	}
	if a := w.do(t, "acme:auditor", "GET", "/audit/verify", ""); strings.Contains(a.body, "beta") || strings.Contains(a.body, "bob") {
		t.Errorf("verify says %s", a.body)
	} else {
		t.Logf("verify: %d %s", a.status, a.body)
	}
}
