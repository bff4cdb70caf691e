package catalogue

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/definition"
)

// The definitions kept for one service are bounded, in number and bytes. Other services have
// their own room, and tools that are no longer offered make room.
func TestH8BoundsOfDefinitions(t *testing.T) {
	t.Parallel()
	say := func(service string, n, size int) map[string]definition.Definition {
		all := map[string]definition.Definition{}
		for i := range n {
			name := fmt.Sprintf("%s%d", service, i)
			all[name] = definition.Definition{Tool: name, Service: service, Digest: "1", Text: jsontext.Value(strings.Repeat("x", size))}
		}
		return all
	}
	// rounds runs rounds as far as they get without a bus. It returns how many rounds there were,
	// and how many definitions were kept for each service.
	rounds := func(d *definitions, newest map[string]definition.Definition) (n int, count map[string]int, bytes map[string]int) {
		for {
			wants, gone, settled := d.changed(newest, time.Now())
			for _, tool := range gone {
				delete(d.seen, tool)
			}
			at := map[string]int{}
			for _, w := range wants {
				d.seen[w.Tool] = seen{w.Service, w.Digest, len(w.Text)}
				at[w.Service]++
			}
			for service, n := range at {
				if n > notesAtOnce {
					t.Errorf("%d of %s in one round", n, service)
				}
			}
			if n++; settled && len(wants) == 0 {
				break
			}
		}
		count, bytes = map[string]int{}, map[string]int{}
		for _, s := range d.seen {
			count[s.service]++
			bytes[s.service] += s.bytes
		}
		return n, count, bytes
	}
	d := newDefinitions(nil, slog.New(slog.DiscardHandler))
	d.seen = map[string]seen{}
	newest := say("many", MaxSeen+500, 10)
	for tool, one := range say("large", 200, 40<<10) {
		newest[tool] = one
	}
	for tool, one := range say("few", 3, 10) {
		newest[tool] = one
	}
	n, count, bytes := rounds(d, newest)
	if count["many"] != MaxSeen || count["few"] != 3 || bytes["large"] > MaxSeenBytes || bytes["large"] < MaxSeenBytes-(64<<10) || n > 2*MaxSeen/notesAtOnce {
		t.Errorf("%d rounds, kept %v, %v bytes", n, count, bytes)
	}
	// Another release of the service, whose tools all have other names.
	newest = map[string]definition.Definition{}
	for i := range 20 {
		name := fmt.Sprintf("new%d", i)
		newest[name] = definition.Definition{Tool: name, Service: "many", Digest: "1", Text: jsontext.Value("x")}
	}
	if _, count, _ := rounds(d, newest); count["many"] != MaxSeen || d.seen["new19"].digest == "" {
		t.Errorf("new tools have no room: %v", count)
	}
	// A tool that changes all the time is reported once a minute.
	d.told["new0"] = time.Now()
	newest["new0"] = definition.Definition{Tool: "new0", Service: "many", Digest: "2", Text: jsontext.Value("x")}
	if wants, _, settled := d.changed(newest, time.Now()); len(wants) != 0 || settled {
		t.Errorf("wants %v, settled %t", wants, settled)
	}
	if wants, _, _ := d.changed(newest, time.Now().Add(noteAgain)); len(wants) != 1 {
		t.Errorf("wants %v after a minute", wants)
	}
}
