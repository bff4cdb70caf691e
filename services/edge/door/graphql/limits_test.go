package graphql_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// counter counts authentications.
type counter struct{ n atomic.Int64 }

func (c *counter) Authenticate(context.Context, gateway.Credentials) (gateway.Principal, error) {
	c.n.Add(1)
	return gateway.Anonymous, nil
}

func aliases(n int) string {
	var b strings.Builder
	b.WriteString("mutation {")
	for i := range n {
		fmt.Fprintf(&b, " a%d: executeTool(input: {name: \"safe\"}) { is_error }", i)
	}
	return b.String() + "}"
}

func TestLimits(t *testing.T) {
	t.Parallel()
	calls := &counter{}
	w := startAs(t, edge.Config{Authenticator: calls}, door.Guard{Loopback: true})
	t.Run("aliases are calls of one request", func(t *testing.T) {
		before, begun := calls.n.Load(), time.Now()
		w.do(t, aliases(15), nil).data(t)
		// During a request, its caller is checked again now and then.
		if n := calls.n.Load() - before; n < 1 || n > 1+int64(time.Since(begun)/time.Second) {
			t.Errorf("authenticated %d times, want once for the request", n)
		}
	})
	ran := w.Svc.Calls.Load()
	t.Run("a literal is nested no deeper than a message", func(t *testing.T) {
		w.do(t, `mutation { executeTool(input: {name: "safe", parameters: {a: `+strings.Repeat("[", 70)+strings.Repeat("]", 70)+`}}) { is_error } }`, nil).
			refused(t, 200, "BAD_USER_INPUT", "invalid_request", "no")
	})
	deep := "{ __typename " + strings.Repeat("... { ", 30) + "__typename" + strings.Repeat(" }", 31)
	for name, c := range map[string]struct {
		query        string
		status       int
		code, reason string
	}{
		"16 aliases":                    {aliases(16), 413, "LIMIT_EXCEEDED", "too_large"},
		"1,000 aliases":                 {aliases(1000), 413, "LIMIT_EXCEEDED", "too_large"},
		"aliases in fragments":          {"mutation { ...F } fragment F on Mutation " + strings.TrimPrefix(aliases(16), "mutation "), 413, "LIMIT_EXCEEDED", "too_large"},
		"aliases behind comments":       {"mutation { # \r" + strings.TrimPrefix(aliases(16), "mutation {"), 413, "LIMIT_EXCEEDED", "too_large"},
		"aliases behind a block":        {`mutation($a: JSON = """ " # """) ` + strings.TrimPrefix(aliases(16), "mutation "), 413, "LIMIT_EXCEEDED", "too_large"},
		"depth 30":                      {"{ getTools " + strings.Repeat("{ name ", 30) + strings.Repeat("}", 31), 413, "LIMIT_EXCEEDED", "too_large"},
		"100,000 tokens":                {"{ " + strings.Repeat("a ", 100_000) + "}", 413, "LIMIT_EXCEEDED", "too_large"},
		"301 fields":                    {"{ getTools { " + strings.Repeat("name ", 301) + "} }", 413, "LIMIT_EXCEEDED", "too_large"},
		"1,000 directives":              {"{ __typename " + strings.Repeat("@x ", 1000) + "}", 413, "LIMIT_EXCEEDED", "too_large"},
		"brackets of a literal":         {`mutation { executeTool(input: {name: "safe", parameters: {a: ` + strings.Repeat("[", 3000), 413, "LIMIT_EXCEEDED", "too_large"},
		"a fragment of itself":          {"{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }", 400, "GRAPHQL_VALIDATION_FAILED", "invalid_request"},
		"two operations":                {"query A { __typename } query B { __typename }", 400, "BAD_USER_INPUT", "invalid_request"},
		"an operation called query":     {"query query { __typename } mutation { executeTool(input: {name: \"safe\"}) { is_error } }", 400, "BAD_USER_INPUT", "invalid_request"},
		"no operation":                  {"fragment A on Query { __typename }", 400, "GRAPHQL_VALIDATION_FAILED", "invalid_request"},
		"nothing":                       {"", 400, "BAD_USER_INPUT", "invalid_params"},
		"no GraphQL":                    {"{ getTools ", 400, "GRAPHQL_PARSE_FAILED", "parse_error"},
		"a field nobody knows":          {"{ getSecrets { name } }", 400, "GRAPHQL_VALIDATION_FAILED", "invalid_request"},
		"a variable nobody has":         {"query Q($a: String!) { getTool(name: $a) { name } }", 400, "GRAPHQL_VALIDATION_FAILED", "invalid_request"},
		"a literal with a member twice": {`mutation { executeTool(input: {name: "safe", parameters: {a: 1, a: 2}}) { is_error } }`, 400, "GRAPHQL_VALIDATION_FAILED", "invalid_request"},
		"a number too large":            {`mutation { executeTool(input: {name: "safe", parameters: {a: 99999999999999999999}}) { is_error } }`, 400, "BAD_USER_INPUT", "invalid_params"},
		"a number in hexadecimal":       {`mutation { executeTool(input: {name: "safe", parameters: {a: 0xff}}) { is_error } }`, 400, "BAD_USER_INPUT", "invalid_params"},
		"half a surrogate pair":         {`mutation { executeTool(input: {name: "safe", parameters: {a: "\ud800"}}) { is_error } }`, 400, "BAD_USER_INPUT", "invalid_params"},
		"a subscription":                {`subscription { resourceUpdated(uri: "note:///one") { uri } }`, 400, "BAD_USER_INPUT", "invalid_params"},
		"the schema twice":              {"{ __schema { types { fields { type { fields { name } } } } } }", 413, "LIMIT_EXCEEDED", "too_large"},
	} {
		t.Run(name, func(t *testing.T) { w.do(t, c.query, nil).refused(t, c.status, c.code, c.reason, "no") })
	}
	for name, c := range map[string]struct {
		query     string
		variables map[string]any
		named     string
	}{
		"an object for a String":   {"query($x: String!) { getTool(name: $x) { name } }", map[string]any{"x": map[string]any{}}, "$x"},
		"a number for a String":    {"query($x: String!) { getTool(name: $x) { name } }", map[string]any{"x": 5}, "$x"},
		"a list for a String":      {"query($x: String!) { getTool(name: $x) { name } }", map[string]any{"x": []string{"a"}}, "$x"},
		"a text for an Int":        {"mutation($n: Int) { executeTools(inputs: [], parallel: $n) { error } }", map[string]any{"n": "5"}, "$n"},
		"a number beyond an Int":   {"mutation($n: Int) { executeTools(inputs: [], parallel: $n) { error } }", map[string]any{"n": 99999999999}, "$n"},
		"a text for a Boolean":     {"query($b: Boolean!) { getTools @include(if: $b) { name } }", map[string]any{"b": "x"}, "$b"},
		"a member of the wrong":    {"mutation($i: [ToolInput!]!) { executeTools(inputs: $i) { error } }", map[string]any{"i": []any{map[string]any{"name": "safe"}, map[string]any{"name": 7}}}, "$i[1].name"},
		"a text for an object":     {"mutation($i: ToolInput!) { executeTool(input: $i) { is_error } }", map[string]any{"i": "safe"}, "$i"},
		"with a default and after": {"query($a: Boolean = true, $x: String!) { getTool(name: $x) @include(if: $a) { name } }", map[string]any{"x": true}, "$x"},
	} {
		t.Run("L3 "+name, func(t *testing.T) {
			r := w.do(t, c.query, c.variables)
			r.refused(t, 400, "BAD_USER_INPUT", "invalid_params", "no")
			if text := r.Errors[0].Message; !strings.Contains(text, "variable "+c.named+" must be of type ") || strings.Contains(text, "interface") {
				t.Error(text)
			}
		})
	}
	t.Run("inline fragments are no depth", func(t *testing.T) {
		w.do(t, deep, nil).data(t)
	})
	if n := w.Svc.Calls.Load(); n != ran {
		t.Errorf("%d calls ran", n-ran)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	w := start(t)
	one := body(t, "{ __typename }", nil)
	for name, c := range map[string]struct {
		method, body string
		header       header
		status       int
		reason       string
	}{
		"an array":                {"POST", "[" + one + "]", nil, 400, "invalid_request"},
		"no JSON":                 {"POST", `{"query":`, nil, 400, "parse_error"},
		"a member twice":          {"POST", `{"query":"{a}","query":"{b}"}`, nil, 400, "parse_error"},
		"a member nobody knows":   {"POST", `{"query":"{ __typename }","Variables":{}}`, nil, 400, "invalid_request"},
		"variables of a kind":     {"POST", `{"query":"{ __typename }","variables":[]}`, nil, 400, "invalid_request"},
		"too large":               {"POST", `{"query":"` + strings.Repeat("x", 1<<20) + `"}`, nil, 413, "too_large"},
		"a form":                  {"POST", "query={__typename}", header{"Content-Type": "application/x-www-form-urlencoded"}, 415, "invalid_request"},
		"text, as a page may":     {"POST", one, header{"Content-Type": "text/plain"}, 415, "invalid_request"},
		"the query as a body":     {"POST", "{ __typename }", header{"Content-Type": "application/graphql"}, 415, "invalid_request"},
		"an evil origin":          {"POST", one, header{"Origin": "https://evil.example"}, 403, "forbidden"},
		"a rebound host":          {"POST", one, header{"Host": "evil.example"}, 403, "forbidden"},
		"operations by GET":       {"GET", "", nil, 405, "method_not_found"},
		"another method":          {"PUT", one, nil, 405, "method_not_found"},
		"extensions, as some add": {"POST", `{"query":"{ __typename }","extensions":{},"operationName":null,"variables":null}`, nil, 200, ""},
		"an operation by name":    {"POST", `{"query":"query A { __typename }","operationName":"A"}`, nil, 200, ""},
		"another operation":       {"POST", `{"query":"query A { __typename }","operationName":"B"}`, nil, 400, "invalid_params"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, text := w.request(t, c.method, c.body, c.header)
			if resp.StatusCode != c.status || c.reason != "" && !strings.Contains(text, `"reason":"`+c.reason+`"`) || strings.Contains(text, `"errors"`) != (c.reason != "") {
				t.Errorf("%d %.300s, want %d %s", resp.StatusCode, text, c.status, c.reason)
			}
		})
	}
}

// introspection is the query that clients send.
const introspection = `query IntrospectionQuery { __schema { queryType { name } mutationType { name } subscriptionType { name }
	types { ...FullType } directives { name description locations args { ...InputValue } } } }
	fragment FullType on __Type { kind name description
		fields(includeDeprecated: true) { name description args { ...InputValue } type { ...TypeRef } isDeprecated deprecationReason }
		inputFields { ...InputValue } interfaces { ...TypeRef }
		enumValues(includeDeprecated: true) { name description isDeprecated deprecationReason } possibleTypes { ...TypeRef } }
	fragment InputValue on __InputValue { name description type { ...TypeRef } defaultValue }
	fragment TypeRef on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name
		ofType { kind name ofType { kind name ofType { kind name ofType { kind name ofType { kind name } } } } } } } } } }`

func TestSchemaIsTold(t *testing.T) {
	t.Parallel()
	t.Run("on loopback", func(t *testing.T) {
		t.Parallel()
		w := start(t)
		if got := w.do(t, introspection, nil).data(t); !strings.Contains(got, `"input_schema"`) {
			t.Errorf("%.300s", got)
		}
		resp, page := w.request(t, http.MethodGet, "", header{"Accept": "text/html"})
		if resp.StatusCode != http.StatusOK || !strings.Contains(page, "graphiql.js") || strings.Contains(page, "//") {
			t.Errorf("%d %s", resp.StatusCode, page)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Error(csp)
		}
	})
	t.Run("elsewhere to callers with a token", func(t *testing.T) {
		t.Parallel()
		w := startAs(t, edge.Config{}, door.Guard{})
		for _, query := range []string{introspection, `{ x: __type(name: "Tool") { name } }`, `{ ...F } fragment F on Query { __schema { queryType { name } } }`} {
			w.do(t, query, nil).refused(t, http.StatusForbidden, "FORBIDDEN", "forbidden", "no")
		}
		if resp, _ := w.request(t, http.MethodGet, "", header{"Accept": "text/html"}); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("the page is served: %d", resp.StatusCode)
		}
		w.do(t, `{ __typename }`, nil).data(t)
		w.token = "any"
		w.do(t, introspection, nil).data(t)
	})
	t.Run("nothing to nobody", func(t *testing.T) {
		t.Parallel()
		w := startAs(t, edge.Config{Authenticator: key{}}, door.Guard{})
		resp, _ := w.request(t, http.MethodPost, "{", nil)
		if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		w.do(t, `{ getTools { name } }`, nil).refused(t, http.StatusUnauthorized, "UNAUTHENTICATED", "unauthenticated", "no")
		w.token = "key"
		w.do(t, `{ getTools { name } }`, nil).data(t)
	})
}

func FuzzQuery(f *testing.F) {
	w := start(f)
	for _, seed := range []string{
		introspection, aliases(3), `{ getTools { name } }`, `mutation { executeTool(input: {name: "echo", parameters: {a: "\"", b: """x"""}}) { content { text } } }`,
		`query Q($a: JSON = {b: -1.5e3}) { __typename @skip(if: true) }`, "# \r{", `{ a(b: -"c") }`, `"""`, `{ __typename } }`, "\uFEFF{ __typename }",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if strings.Contains(query, "hold") || strings.Contains(query, "flood") || strings.Contains(query, "steps") {
			t.Skip("never ends by itself")
		}
		resp, text := w.request(t, http.MethodPost, body(t, strings.ToValidUTF8(query, ""), nil), nil)
		if resp.StatusCode >= 500 || strings.Contains(text, `"code":"INTERNAL"`) && !strings.Contains(query, "panics") && !strings.Contains(query, "broken") {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	})
}
