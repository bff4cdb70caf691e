package catalogue_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func TestPages(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	names := numbered(600)
	a := announce(t, url, tools("svc", names...))
	becomes(t, live, strings.Join(names, " "))
	first, cursor := page(t, live.Now(), nil)
	if len(first) == 600 || cursor == nil {
		t.Fatal("one page holds all")
	}
	at := len(first)

	// Some entries before and after the cursor go, and so does the entry that it names; others
	// come.
	var kept []string
	for i, n := range names {
		if i != 3 && i != at-1 && i != at+5 {
			kept = append(kept, n)
		}
	}
	a.update(tools("svc", append(kept, "a-new-one", names[at]+"-new")...))
	bustest.Eventually(t, "the change is there", func() bool { _, ok := live.Now().Tool("a-new-one"); return ok })
	rest, next := page(t, live.Now(), cursor)
	for next != nil {
		var more []string
		more, next = page(t, live.Now(), next)
		rest = append(rest, more...)
	}
	var want []string
	for i := at; i < 600; i++ {
		if i != at+5 {
			want = append(want, names[i])
		}
		if i == at {
			want = append(want, names[i]+"-new")
		}
	}
	if strings.Join(rest, " ") != strings.Join(want, " ") {
		t.Errorf("behind the cursor come %v", rest)
	}
	// A cursor of one edge is valid at another, and at the end of a list that became shorter.
	if got, _ := page(t, watch(t, url).Now(), cursor); len(got) == 0 || got[0] != names[at] {
		t.Errorf("another edge goes on with %v", got)
	}
	a.update(tools("svc", names[0]))
	becomes(t, live, names[0])
	if got, next := page(t, live.Now(), cursor); len(got) != 0 || next != nil {
		t.Errorf("behind the end come %v", got)
	}
}

func TestPagesHaveBoundedBytes(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	c := tools("svc", "a", "b", "c", "d")
	for _, tool := range c.Tools {
		tool.Json = []byte(`{"name":"` + tool.Name + `","inputSchema":{"type":"object"},"description":"` + strings.Repeat("x", 240<<10) + `"}`)
	}
	announce(t, url, c)
	becomes(t, live, "a b c d")
	if first, _ := page(t, live.Now(), nil); len(first) != 2 {
		t.Errorf("the first page holds %v", first)
	}
}

func TestForgedCursors(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	announce(t, url, tools("svc", numbered(600)...))
	becomes(t, live, strings.Join(numbered(600), " "))
	_, good := page(t, live.Now(), nil)
	for name, c := range map[string]struct {
		kind   catalogue.Kind
		cursor string
	}{
		"empty": {catalogue.Tools, ""}, "number": {catalogue.Tools, "2"}, "garbage": {catalogue.Tools, "!!!"}, "not ours": {catalogue.Tools, "aGVsbG8"},
		"cut": {catalogue.Tools, string(good[:5])}, "padded": {catalogue.Tools, string(good) + "="}, "with a line end": {catalogue.Tools, string(good) + "\n"},
		"of another list": {catalogue.Prompts, string(good)}, "1 MiB": {catalogue.Tools, strings.Repeat("A", 1<<20)}, "bad UTF-8": {catalogue.Tools, "\xff"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if p, err := pageOf(live.Now(), c.kind, []byte(c.cursor)); !fault.Is(err, fault.InvalidParams) {
				t.Errorf("accepted: %.100s, %v", p, err)
			}
		})
	}
}
