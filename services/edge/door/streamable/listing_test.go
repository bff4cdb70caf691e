package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// TestResourcesThatAServiceLists: they stand in one list with the others, can be read and
// subscribed to, and their changes are announced, to modern and legacy clients.
func TestResourcesThatAServiceLists(t *testing.T) {
	t.Parallel()
	w := start(t)
	s := service.New("zlister", service.WithLogger(bustest.Logger(t)))
	away := make(chan bool, 1)
	s.ListResources(func(_ context.Context, call *service.Call, cursor string, limit int) (service.ResourcePage, error) {
		select {
		case <-away:
			return service.ResourcePage{}, fault.New(fault.Unavailable, "the database is away")
		default:
		}
		n := 0
		_, _ = fmt.Sscan(cursor, &n)
		var p service.ResourcePage
		for ; n < 600 && len(p.Resources) < limit; n++ {
			p.Resources = append(p.Resources, mcp.Resource{URI: fmt.Sprintf("many:%03d", n), Name: call.Principal()})
		}
		if n < 600 {
			p.Next = fmt.Sprint(n)
		}
		return p, nil
	})
	s.AddResourcePrefix("many:", func(_ context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, Text: "it"}}, nil
	})
	edgetest.Serve(t, bustest.Connect(t, w.Bus), s)
	bustest.Eventually(t, "the edge knows", func() bool { return w.Edge.Await(t.Context(), "zlister") == nil })
	old := w.Initialize(t, mcp.V20251125, "{}")
	eras := map[string]func(method, params string) edgetest.Message{
		"modern": func(method, params string) edgetest.Message {
			name := ""
			if method == mcp.MethodResourcesRead {
				name = "many:007"
			}
			return w.Ask(t, method, name, params).Message(t)
		},
		"legacy": func(method, params string) edgetest.Message {
			return w.Post(t, old, edgetest.Legacy("1", method, params)).Answer(t)
		},
	}
	for era, ask := range eras {
		count, pages := 0, 0
		for params := ""; ; {
			m := ask(mcp.MethodResourcesList, params)
			if m.Error != nil {
				t.Fatalf("%s: %+v", era, m.Error)
			}
			count += strings.Count(m.Field("resources"), `"uri"`)
			pages++
			if scope := m.Field("cacheScope"); era == "modern" && scope != `"private"` {
				t.Errorf("a list that depends on who asks is %s", scope)
			}
			next := m.Field("nextCursor")
			if next == "" {
				break
			}
			params = `"cursor":` + next
		}
		if count != 602 || pages != 3 {
			t.Errorf("%s: %d resources on %d pages", era, count, pages)
		}
		if m := ask(mcp.MethodResourcesRead, `"uri":"many:007"`); !strings.Contains(string(m.Result), `"text":"it"`) {
			t.Errorf("%s: %+v", era, m)
		}
		// Resources that are there are listed. A page that begins with resources of an
		// absent service is refused.
		away <- true
		m := ask(mcp.MethodResourcesList, "")
		if strings.Count(m.Field("resources"), `"uri"`) != 2 {
			t.Errorf("%s: %+v", era, m)
		}
		away <- true
		if m = ask(mcp.MethodResourcesList, `"cursor":`+m.Field("nextCursor")); m.Code() != mcp.CodeUnavailable {
			t.Errorf("%s: %+v", era, m)
		}
	}

	if m := eras["legacy"](mcp.MethodSubscribe, `"uri":"many:007"`); m.Error != nil {
		t.Errorf("subscribe: %+v", m)
	}
	stream := w.Open(t, modern(mcp.MethodListen, ""), listen("9", `{"resourcesListChanged":true,"resourceSubscriptions":["many:007"]}`))
	if m := stream.Await(); m.Method != mcp.NotifyAcknowledged {
		t.Fatalf("%+v", m)
	}
	if err := s.ResourcesUpdated(t.Context(), service.ResourceUpdate{URI: "many:007", Tenant: "another"}, service.ResourceUpdate{URI: "many:007"}); err != nil {
		t.Fatal(err)
	}
	if m := stream.Await(); m.Method != mcp.NotifyResourceUpdated {
		t.Errorf("%+v", m)
	}
	if err := s.ResourcesUpdated(t.Context(), service.ResourceUpdate{URI: "many:601", Listed: true}); err != nil {
		t.Fatal(err)
	}
	if m := stream.Await(); m.Method != mcp.NotifyResourcesChanged {
		t.Errorf("%+v", m)
	}
	w.Ask(t, mcp.MethodResourcesList, "", `"cursor":"x"`).Refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
}
