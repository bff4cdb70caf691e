package main

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/forms"
)

// reason is a reason of libs/fault with its doc comment.
type reason struct {
	fault.Reason
	meaning, more string
}

func findReasons(c *code) ([]reason, error) {
	var all []reason
	var err error
	for _, f := range c.dirs["libs/fault"].files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if kind, ok := v.Type.(*ast.Ident); !ok || kind.Name != "Reason" {
				return true
			}
			name, value := v.Names[0].Name, v.Values[0].(*ast.BasicLit).Value
			text, _ := strconv.Unquote(value)
			said, ok := strings.CutPrefix(strings.Join(strings.Fields(v.Doc.Text()), " "), name+": ")
			if !ok {
				err = fmt.Errorf("%s: the comment of %s does not begin with %q", f.path, name, name+": ")
			}
			one := reason{Reason: fault.Reason(text)}
			one.meaning, one.more = split(said)
			all = append(all, one)
			return true
		})
	}
	return all, err
}

// ofMCP is set for the reasons that other doors do not have.
func ofMCP(r fault.Reason) bool { return r == fault.HeaderMismatch || r == fault.UnsupportedVersion }

// protocol shows each reason in MCP, with the details that do not fit the table.
func protocol(all []reason) string {
	var rows [][]string
	notes := ""
	for _, one := range all {
		form := forms.ForReason(one.Reason).MCP
		status, code := form.In(mcp.Modern)
		before, codeBefore := form.In(mcp.V20251125)
		rows = append(rows, []string{
			quoted(string(one.Reason)), pair(code, codeBefore), pair(status, before),
			string(fault.New(one.Reason, "").Executed), one.meaning,
		})
		if one.more != "" {
			notes += wrap("- "+quoted(string(one.Reason))+": "+one.more, "  ")
		}
	}
	return table([]string{"`data.reason`", "code", "HTTP", "`executed`", "meaning"}, rows) + "\n" + notes
}

func pair(modern, before int) string {
	if modern == before {
		return strconv.Itoa(modern)
	}
	return fmt.Sprintf("%d, %d", modern, before)
}

// doors shows each reason at the doors that are not MCP's.
func doors(all []reason) string {
	var rows [][]string
	for _, one := range all {
		if form := forms.ForReason(one.Reason); !ofMCP(one.Reason) {
			rows = append(rows, []string{quoted(string(one.Reason)), strconv.Itoa(form.HTTP), quoted(grpcCode(form)), quoted(form.GraphQL)})
		}
	}
	return table([]string{"`reason`", "HTTP", "gRPC", "GraphQL"}, rows)
}

// grpcCode is a code of gRPC as its specification writes it.
func grpcCode(form forms.Form) string {
	if form.GRPC.String() == "Canceled" {
		return "CANCELLED"
	}
	return strings.ToUpper(upper.ReplaceAllString(form.GRPC.String(), "${1}${3}_${2}${4}"))
}

// next shows what a client can do about each reason, over HTTP.
func next(all []reason) string {
	var texts []string
	by := map[string][]string{}
	for _, one := range all {
		way := forms.WayOn(one.Reason).HTTP
		if way == "" {
			continue
		}
		if by[way] == nil {
			texts = append(texts, way)
		}
		by[way] = append(by[way], quoted(string(one.Reason)))
	}
	out := ""
	for _, way := range slices.Clip(texts) {
		out += wrap("- "+strings.Join(by[way], ", ")+": "+way, "  ")
	}
	return out
}
