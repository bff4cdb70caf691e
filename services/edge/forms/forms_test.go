package forms_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// TestDocument holds the table of the doors that are not MCP's against
// docs/reference/errors.md; that of MCP is era's test.
func TestDocument(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| `reason` | HTTP | gRPC | GraphQL |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.ReplaceAll(line, "`", ""), "|")
		if len(cells) != 6 || strings.HasPrefix(cells[1], "--") {
			continue
		}
		var want forms.Form
		if want.HTTP, err = strconv.Atoi(strings.TrimSpace(cells[2])); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := want.GRPC.UnmarshalJSON([]byte(`"` + strings.TrimSpace(cells[3]) + `"`)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		want.GraphQL = strings.TrimSpace(cells[4])
		for name := range strings.SplitSeq(cells[1], ",") {
			rows++
			got := forms.Of(fault.Reason(strings.TrimSpace(name)))
			if got.HTTP != want.HTTP || got.GRPC != want.GRPC || got.GraphQL != want.GraphQL {
				t.Errorf("%s is %+v, docs/reference/errors.md says %+v", name, got, want)
			}
		}
	}
	if rows != 28 {
		t.Errorf("docs/reference/errors.md has %d reasons of these doors", rows)
	}
}

// TestWaysOn holds the ways on that docs/reference/errors.md shows against those there are.
func TestWaysOn(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| `reason` | MCP | HTTP | GraphQL | gRPC | `/ws` |\n|---|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 8 {
			t.Fatal(line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows++
		said := forms.Way{MCP: cells[2], HTTP: cells[3], GraphQL: cells[4], GRPC: cells[5], WebSocket: cells[6]}
		if got := forms.WayOn(fault.Reason(strings.Trim(cells[1], "`"))); got != said {
			t.Errorf("docs/reference/errors.md says %+v, the edge %+v", said, got)
		}
	}
	if rows != 4 {
		t.Errorf("docs/reference/errors.md has %d rows", rows)
	}
}

// A failure that knows its way on better than its reason says it at every door.
func TestNext(t *testing.T) {
	t.Parallel()
	usual := fault.New(fault.UnknownTool, "no")
	for door, want := range map[string]string{
		forms.MCP: "tools/list lists the tools", forms.HTTP: "GET /tools lists the tools", "envelope": "GET /tools lists the tools",
		forms.GraphQL: "getTools lists the tools", forms.GRPC: "ListTools lists the tools", forms.WebSocket: "GET /tools lists the tools",
	} {
		if got := forms.Next(usual, door); got != want {
			t.Errorf("%q: %q", door, got)
		}
		if got := forms.Next(usual.Toward("look there"), door); got != "look there" {
			t.Errorf("%q: %q", door, got)
		}
	}
}

// Whoever knows that nothing ran is not told to look whether it did.
func TestNextOfWhatDidNotRun(t *testing.T) {
	t.Parallel()
	for _, reason := range []fault.Reason{fault.DeadlineExceeded, fault.PeerLost, fault.Cancelled, fault.HistoryLost} {
		for _, door := range []string{forms.MCP, forms.HTTP, forms.GraphQL, forms.GRPC, forms.WebSocket} {
			lost := fault.New(reason, "no").Ran(fault.No)
			if got := forms.Next(lost, door); got != "nothing ran: call again" {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
			if got := forms.Next(lost.Toward("look there"), door); got != "look there" {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
			if got := forms.Next(lost.Ran(fault.Unknown), door); !strings.HasPrefix(got, "look whether it ran") {
				t.Errorf("%s at %q: %q", reason, door, got)
			}
		}
	}
}

// What nobody has a form for is a defect.
func TestUnknownReason(t *testing.T) {
	t.Parallel()
	if f := forms.Of("no_such_reason"); f.GRPC != codes.Internal || f.HTTP != 500 {
		t.Errorf("%+v", f)
	}
}
