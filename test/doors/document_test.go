package doors

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// document is the content of docs/reference/errors.md. The doors must agree with its tables.
type document struct {
	// By reason: mcp has the forms in MCP, doors the forms at the other doors.
	mcp   map[string]mcpForm
	doors map[string]plainForm
}

// mcpForm is a row of the first table. If there are two values, the first is for 2026-07-28, the
// second for earlier versions.
type mcpForm struct {
	codes, statuses [2]string
	executed        string
}

// plainForm is a row of the second.
type plainForm struct{ http, grpc, graphQL string }

func readDocument(t *testing.T) document {
	t.Helper()
	b, err := os.ReadFile("../../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	d := document{mcp: map[string]mcpForm{}, doors: map[string]plainForm{}}
	for header, rows := range tables(string(b)) {
		for _, row := range rows {
			for _, reason := range strings.Split(plain(row[0]), ", ") {
				switch header {
				case "data.reason | code | HTTP | executed | meaning":
					if d.mcp[reason] != (mcpForm{}) {
						t.Errorf("%s appears twice", reason)
					}
					d.mcp[reason] = mcpForm{two(row[1]), two(row[2]), row[3]}
				case "reason | HTTP | gRPC | GraphQL":
					if d.doors[reason] != (plainForm{}) {
						t.Errorf("%s appears twice", reason)
					}
					d.doors[reason] = plainForm{row[1], plain(row[2]), plain(row[3])}
				default:
					t.Fatalf("docs/reference/errors.md has a table that this test does not know: %s", header)
				}
			}
		}
	}
	if len(d.mcp) == 0 || len(d.doors) == 0 {
		t.Fatal("docs/reference/errors.md has not both tables")
	}
	return d
}

// tables returns the tables of a page, by their headers.
func tables(page string) map[string][][]string {
	out := map[string][][]string{}
	header := ""
	for line := range strings.Lines(page) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "| ")
		if !ok {
			if !strings.HasPrefix(line, "|--") {
				header = ""
			}
			continue
		}
		cells := strings.Split(strings.TrimSuffix(row, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if header == "" {
			header = plain(strings.Join(cells, " | "))
			out[header] = nil
			continue
		}
		out[header] = append(out[header], cells)
	}
	return out
}

func plain(cell string) string { return strings.ReplaceAll(cell, "`", "") }

// two returns the values of a cell: modern and legacy.
func two(cell string) [2]string {
	modern, legacy, both := strings.Cut(cell, ", ")
	if !both {
		legacy = modern
	}
	return [2]string{modern, legacy}
}

func era(version string) int {
	if version == mcp.Modern {
		return 0
	}
	return 1
}

// Words of the doors, by the document.

func mcpHTTP(version string) words {
	return func(d document, reason string) string {
		f := d.mcp[reason]
		return f.statuses[era(version)] + " " + f.codes[era(version)]
	}
}

func mcpCode(version string) words {
	return func(d document, reason string) string { return d.mcp[reason].codes[era(version)] }
}

// ssePost: nobody reads the body of a 200 there.
func ssePost(d document, reason string) string {
	f := d.mcp[reason]
	if f.statuses[1] == "200" {
		return "503 " + f.codes[1]
	}
	return f.statuses[1] + " " + f.codes[1]
}

func httpStatus(d document, reason string) string  { return d.doors[reason].http }
func grpcCode(d document, reason string) string    { return d.doors[reason].grpc }
func graphQLDone(d document, reason string) string { return "200 " + d.doors[reason].graphQL }
func graphQLRefused(d document, reason string) string {
	return d.doors[reason].http + " " + d.doors[reason].graphQL
}

// socketCode: at /ws one code means that there is no such message, and another
// everything else.
func socketCode(_ document, reason string) string {
	if reason == "method_not_found" {
		return strconv.Itoa(mcp.CodeMethodNotFound)
	}
	return "-32000"
}

// A WebSocket is closed if the edge cannot answer with a message.
func closed1009(document, string) string { return "closed with 1009" }
func closed4400(document, string) string { return "closed with 4400" }

// none: a slot of a batch has the reason alone.
func none(document, string) string { return "" }

// TestDocument holds the tables of docs/reference/errors.md against the reasons there are.
func TestDocument(t *testing.T) {
	t.Parallel()
	d := readDocument(t)
	there := reasons(t)
	if len(there) < 20 {
		t.Fatalf("found only the reasons %v", there)
	}
	for _, reason := range there {
		f, ok := d.mcp[reason]
		if !ok {
			t.Errorf("docs/reference/errors.md does not say what %s is in MCP", reason)
		}
		if !slices.Contains([]string{"no", "unknown", "yes"}, f.executed) {
			t.Errorf("%s: executed is %q", reason, f.executed)
		}
		if _, ok := d.doors[reason]; ok == ofMCP(reason) {
			t.Errorf("docs/reference/errors.md has %s in the table of the other doors: %v", reason, ok)
		}
	}
	for reason := range d.mcp {
		if !slices.Contains(there, reason) {
			t.Errorf("docs/reference/errors.md has the reason %s, which is none", reason)
		}
	}
	for reason, f := range d.doors {
		if !slices.Contains(there, reason) {
			t.Errorf("docs/reference/errors.md has the reason %s, which is none", reason)
		}
		if _, known := grpcCodes(t)[f.grpc]; !known || !regexp.MustCompile(`^[2-5]\d\d$`).MatchString(f.http) || !regexp.MustCompile(`^[A-Z_]+$`).MatchString(f.graphQL) {
			t.Errorf("%s: %+v", reason, f)
		}
	}
}

// ofEdge are the reasons that no service may give: the bus makes them internal.
func ofEdge(reason string) bool {
	return slices.Contains([]string{
		"parse_error", "unknown_session", "unauthenticated", "approval_required", "unknown_approval", "unknown_task", "history_lost", "unknown_toolset", "input_required", "unknown_elicitation",
	}, reason)
}

// ofMCP are the reasons that only MCP has: its headers and versions.
func ofMCP(reason string) bool { return reason == "header_mismatch" || reason == "unsupported_version" }

// reasons returns the reasons of libs/fault.
func reasons(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../libs/fault/fault.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if is, ok := v.Type.(*ast.Ident); ok && is.Name == "Reason" {
			for _, e := range v.Values {
				if lit, ok := e.(*ast.BasicLit); ok {
					reason, err := strconv.Unquote(lit.Value)
					if err != nil {
						t.Fatal(err)
					}
					out = append(out, reason)
				}
			}
		}
		return true
	})
	return out
}
