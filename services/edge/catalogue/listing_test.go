package catalogue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// lister has the entries that a service lists itself, in order.
type lister map[string][]string

func resource(uri string) string { return `{"uri":"` + uri + `","name":"n"}` }

// ask answers as a service: its cursor is an index.
func (l lister) ask(_ context.Context, service, cursor string, limit int) ([]byte, error) {
	uris, ok := l[service]
	if !ok {
		return nil, fault.New(fault.Unavailable, "away")
	}
	from, _ := strconv.Atoi(cursor)
	to := min(from+limit, len(uris))
	var entries []string
	for _, uri := range uris[from:to] {
		entries = append(entries, resource(uri))
	}
	next := ""
	if to < len(uris) {
		next = `,"nextCursor":"` + strconv.Itoa(to) + `"`
	}
	return []byte(`{"resources":[` + strings.Join(entries, ",") + `]` + next + `}`), nil
}

// listPage reads one page of resources.
func listPage(t *testing.T, s *catalogue.Snapshot, cursor []byte, ask func(context.Context, string, string, int) ([]byte, error)) (uris []string, next []byte, err error) {
	t.Helper()
	page, err := s.List(t.Context(), catalogue.Resources, "", cursor, 0, ask)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range page.Entries() {
		var r struct {
			URI  string `json:"uri"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(e, &r); err != nil {
			t.Fatalf("%v: %.300s", err, e)
		}
		uris = append(uris, r.URI)
	}
	if page.Next != "" {
		next = []byte(page.Next)
	}
	return uris, next, nil
}

// holder announces a service with resources of its own and, if it has a prefix, a list.
func holder(service string, prefixes []string, own ...string) *busv1.Catalogue {
	c := &busv1.Catalogue{Service: service, ListsResources: prefixes != nil, ResourcePrefixes: prefixes}
	for _, uri := range own {
		c.Resources = append(c.Resources, &busv1.Resource{Uri: uri, Json: []byte(resource(uri))})
	}
	return c
}

func uris(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%05d", prefix, i))
	}
	return all
}

func TestListResources(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	own := uris("own:", 300)
	announce(t, url, holder("own", nil, own...))
	announce(t, url, holder("c", []string{"", "b:x"}))
	bustest.Eventually(t, "c has its prefixes", func() bool { target, ok := live.Now().Resource("b:x1"); return ok && target.Service == "c" })
	announce(t, url, holder("b", []string{"b:"})) // later than the longer names
	bustest.Eventually(t, "all are there", func() bool { return len(live.Services()) == 3 })
	now := live.Now()
	full := lister{"b": uris("b:", 700), "c": append(uris("c:", 20), "b:x1")}

	everything := func(t *testing.T, l lister) (all []string) {
		var cursor []byte
		for {
			page, next, err := listPage(t, now, cursor, l.ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > 250 || len(page) < 250 && next != nil {
				t.Errorf("a page of %d, and more behind it: %v", len(page), next != nil)
			}
			if all = append(all, page...); next == nil {
				return all
			}
			cursor = next
		}
	}
	t.Run("joins the catalogue's with those of each service", func(t *testing.T) {
		if got, want := everything(t, full), slices.Concat(own, full["b"], full["c"]); !slices.Equal(got, want) {
			t.Errorf("%d resources, want %d", len(got), len(want))
		}
	})
	t.Run("is the same for any sizes", func(t *testing.T) {
		for range 20 {
			l := lister{"b": uris("b:", rand.IntN(600)), "c": uris("c:", rand.IntN(600))}
			if got, want := everything(t, l), slices.Concat(own, l["b"], l["c"]); !slices.Equal(got, want) {
				t.Errorf("with %d and %d: %d resources", len(l["b"]), len(l["c"]), len(got))
			}
		}
	})
	t.Run("leaves out what another service would read", func(t *testing.T) {
		got := everything(t, lister{"b": {"b:1", "b:x1", "c:1", "own:00001"}, "c": {"c:1", "own:00001"}})
		if want := append(slices.Clone(own), "b:1", "c:1"); !slices.Equal(got, want) {
			t.Errorf("%v", got[len(own)-1:])
		}
	})
	t.Run("ends before a service that is away, and fails with it", func(t *testing.T) {
		l := lister{"b": uris("b:", 7)}
		_, next, err := listPage(t, now, nil, l.ask)
		if err != nil {
			t.Fatal(err)
		}
		got, next, err := listPage(t, now, next, l.ask)
		if err != nil || len(got) != 57 || next == nil {
			t.Fatalf("%d, %v", len(got), err)
		}
		if _, _, err := listPage(t, now, next, l.ask); !fault.Is(err, fault.Unavailable) {
			t.Errorf("%v", err)
		}
		// It came back meanwhile.
		if got, next, err := listPage(t, now, next, full.ask); err != nil || len(got) != 21 || next != nil {
			t.Errorf("%d, %v", len(got), err)
		}
	})
	t.Run("believes no service", func(t *testing.T) {
		many := strings.Repeat(resource("b:1")+",", 251)
		for name, page := range map[string]string{
			"garbage": `{`, "no object": `[]`, "resources of another type": `{"resources":7}`,
			"more than asked for": `{"resources":[` + many[:len(many)-1] + `]}`,
			"too large":           `{"resources":[],"more":"` + strings.Repeat("x", 1<<20) + `"}`,
			"a cursor too long":   `{"resources":[],"nextCursor":"` + strings.Repeat("x", 9<<10) + `"}`,
		} {
			cursor := mustCursor(t, now, full)
			if _, _, err := listPage(t, now, cursor, func(context.Context, string, string, int) ([]byte, error) { return []byte(page), nil }); !fault.Is(err, fault.Internal) {
				t.Errorf("%s: %v", name, err)
			}
		}
		still := func(_ context.Context, _, cursor string, _ int) ([]byte, error) {
			return []byte(`{"resources":[],"nextCursor":"` + cursor + `"}`), nil
		}
		if _, _, err := listPage(t, now, mustCursor(t, now, full), still); !fault.Is(err, fault.Internal) {
			t.Errorf("a cursor that stands still: %v", err)
		}
		odd := func(_ context.Context, service, _ string, _ int) ([]byte, error) {
			if service != "b" {
				return []byte(`{"resources":[]}`), nil
			}
			return []byte("{\"resources\":[7,null,{},{\"uri\":7},{\n\"uri\":\"b:2\",\"name\":\"n\"}]}"), nil
		}
		if got, _, err := listPage(t, now, mustCursor(t, now, full), odd); err != nil || !slices.Equal(got, []string{"b:2"}) {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("goes on behind a service that is gone", func(t *testing.T) {
		alone := watch(t, bustest.Server(t)).Now()
		got, next, err := listPage(t, alone, mustCursor(t, now, full), func(context.Context, string, string, int) ([]byte, error) { return nil, errors.New("asked") })
		if err != nil || len(got) != 0 || next != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("refuses cursors of others", func(t *testing.T) {
		for _, c := range []string{"", "x", "!", "bGlzdGluZw", strings.Repeat("A", 1<<20)} {
			if _, _, err := listPage(t, now, []byte(c), full.ask); !fault.Is(err, fault.InvalidParams) {
				t.Errorf("%.20q: %v", c, err)
			}
		}
	})
	t.Run("the longest prefix reads", func(t *testing.T) {
		for uri, want := range map[string]string{"own:00001": "own", "b:1": "b", "b:x1": "c", "zzz": "c", "": "c"} {
			if got, ok := now.Resource(uri); !ok || got.Service != want {
				t.Errorf("%q is read by %q", uri, got.Service)
			}
		}
	})
}

// mustCursor is a cursor in the middle of service b.
func mustCursor(t *testing.T, s *catalogue.Snapshot, l lister) []byte {
	t.Helper()
	_, next, err := listPage(t, s, nil, l.ask)
	for range 2 {
		if err == nil {
			_, next, err = listPage(t, s, next, l.ask)
		}
	}
	if err != nil || next == nil {
		t.Fatalf("no third page: %v", err)
	}
	return next
}

// FuzzListCursor: every cursor leads to a page or a refusal.
func FuzzListCursor(f *testing.F) {
	f.Add([]byte("bGlzdGluZwpiCjEw"))
	f.Add([]byte("cmVzb3VyY2VzCm93bg"))
	f.Fuzz(func(t *testing.T, cursor []byte) {
		_, err := new(catalogue.Snapshot).List(t.Context(), catalogue.Resources, "", cursor, 0, func(context.Context, string, string, int) ([]byte, error) {
			return []byte(`{"resources":[]}`), nil
		})
		if err != nil && !fault.Is(err, fault.InvalidParams) {
			t.Error(err)
		}
	})
}

func TestUpdatesOfLists(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	announce(t, url, holder("a", []string{""}))
	bustest.Eventually(t, "it is there", func() bool { return live.Now().Lists(catalogue.Resources, "") })
	conn := bustest.Connect(t, url)
	ours := live.Subscribe(tenant("us"), func(string) bool { return true })
	defer ours.Close()
	theirs := live.Subscribe(tenant("them"), func(string) bool { return true })
	defer theirs.Close()
	err := conn.RecordUpdated(t.Context(), []bus.Updated{
		{Service: "a", URI: "x:1", Tenant: "us", Listed: true}, {Service: "b", URI: "x:2", Listed: true}, {Service: "a", URI: "x:3", Tenant: "them"},
	})
	if err != nil {
		t.Fatal(err)
	}
	digest := live.Now().Digest()
	for who, want := range map[tenant]catalogue.Change{"us": catalogue.ResourcesChanged, "them": 0, "others": 0} {
		if c, uris := live.Missed(t.Context(), who, digest, time.Now().Add(-time.Minute), []string{"x:3"}); c != want || (len(uris) == 1) != (who == "them") {
			t.Errorf("%s missed %v %v", who, c, uris)
		}
	}
	<-theirs.C
	if c, uris := theirs.Take(); c != 0 || !slices.Equal(uris, []string{"x:3"}) {
		t.Errorf("they hear %v %v", c, uris)
	}
	<-ours.C
	if c, uris := ours.Take(); c != catalogue.ResourcesChanged || !slices.Equal(uris, []string{"x:1"}) {
		t.Errorf("we hear %v %v", c, uris)
	}
}
