package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/api"
)

// The files of contracts that follow from the table of operations. The rest of each file, such
// as types and documents, is written by hand, and so is the order.
const (
	openAPIPath = "services/edge/door/rest/openapi.json"
	schemaPath  = "services/edge/door/graphql/schema.graphql"
)

// operations shows where each operation is offered.
func operations() string {
	var rows [][]string
	for _, o := range api.Operations {
		var fields []string
		for _, f := range o.GraphQL {
			if name := quoted(fieldName(f)); !slices.Contains(fields, name) {
				fields = append(fields, name)
			}
		}
		row := []string{o.Does}
		for _, at := range []string{o.HTTP.Path, "", o.GRPC, o.Message.Type, o.Command} {
			row = append(row, strings.ReplaceAll(quoted(at), "–", ""))
		}
		row[2] = strings.Join(fields, ", ")
		rows = append(rows, row)
	}
	return strings.TrimSuffix(table([]string{"operation", "HTTP", "GraphQL", "gRPC", "WebSocket", "command line"}, rows), "\n")
}

func fieldName(f api.Field) string { return f.Is[:strings.IndexAny(f.Is, "(:")] }

// contracts returns the text of each of these files by its path.
func contracts(root string) (map[string]string, error) {
	all := map[string]string{}
	for path, write := range map[string]func([]byte) (string, error){openAPIPath: openAPI, schemaPath: schema} {
		old, err := os.ReadFile(filepath.Join(root, path))
		if err == nil {
			all[path], err = write(old)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return all, nil
}

// schema writes the fields of the root types of GraphQL.
func schema(old []byte) (string, error) {
	text := string(old)
	for _, root := range []string{"Query", "Mutation", "Subscription"} {
		before, rest, ok := strings.Cut(text, "type "+root+" {\n")
		block, after, ended := strings.Cut(rest, "}\n")
		if !ok || !ended {
			return "", fmt.Errorf("type %s is missing", root)
		}
		var names []string
		for _, m := range regexp.MustCompile(`(?m)^  (\w+)[(:]`).FindAllStringSubmatch(block, -1) {
			names = append(names, m[1])
		}
		fields := map[string]string{}
		for _, o := range api.Operations {
			for _, f := range o.GraphQL {
				if f.Root != root {
					continue
				}
				name := fieldName(f)
				if fields[name] = "  " + f.Is + "\n"; f.Says != "" {
					fields[name] = "  \"" + f.Says + "\"\n" + fields[name]
				}
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		text = before + "type " + root + " {\n"
		for _, name := range names {
			text += fields[name]
		}
		text += "}\n" + after
	}
	return text, nil
}

// openAPI writes the paths of the operations.
func openAPI(old []byte) (string, error) {
	var order []string
	paths := map[string][][2]string{} // methods with what they do
	add := func(path string, method, does string) {
		if paths[path] == nil {
			order = append(order, path)
		}
		paths[path] = append(paths[path], [2]string{method, does})
	}
	for _, o := range api.Operations {
		method, path, ok := strings.Cut(o.HTTP.Path, " ")
		if !ok {
			continue
		}
		root, _, _ := strings.Cut(path[1:], "/")
		method = strings.ToLower(method)
		add(path, method, request(o, path, o.Name, o.Does))
		if slices.Contains(api.InToolsets, root) {
			path = "/toolsets/{toolset}" + path
			if paths[path] == nil {
				add(path, "parameters", `[{"$ref":"#/components/parameters/Toolset"}]`)
			}
			add(path, method, request(o, path, o.Name+"OfToolset", "Of a toolset: "+strings.ToLower(o.Does[:1])+o.Does[1:]))
		}
	}
	begin, end := bytes.Index(old, []byte("\n \"paths\": {"))+len("\n \"paths\": "), bytes.Index(old, []byte(",\n \"components\": {"))
	if end < begin {
		return "", fmt.Errorf("there are no paths before the components")
	}
	var all bytes.Buffer
	out := jsontext.NewEncoder(&all, jsontext.WithIndent(" "), jsontext.WithIndentPrefix(" "))
	err := out.WriteToken(jsontext.BeginObject)
	write := func(path string, value jsontext.Value) {
		if err == nil {
			err = out.WriteToken(jsontext.String(path))
		}
		if err == nil {
			err = out.WriteValue(value)
		}
	}
	in := jsontext.NewDecoder(bytes.NewReader(old[begin:end]))
	if _, err := in.ReadToken(); err != nil {
		return "", err
	}
	for in.PeekKind() == '"' {
		name, failed := in.ReadToken()
		path := name.String()
		value, failedToo := in.ReadValue()
		if failed != nil || failedToo != nil {
			return "", fmt.Errorf("the paths cannot be read: %v %v", failed, failedToo)
		}
		if paths[path] != nil {
			value = members(paths[path])
			delete(paths, path)
		}
		write(path, value)
	}
	for _, path := range order {
		if paths[path] != nil {
			write(path, members(paths[path]))
		}
	}
	if err == nil {
		err = out.WriteToken(jsontext.EndObject)
	}
	text := regexp.MustCompile(`"tags": \[\n\s+"edge"\n\s+\]`).ReplaceAllString(strings.TrimSpace(all.String()), `"tags": ["edge"]`)
	return string(old[:begin]) + text + string(old[end:]), err
}

// members is an object with members in an order.
func members(all [][2]string) jsontext.Value {
	var parts []string
	for _, m := range all {
		name, _ := json.Marshal(m[0])
		parts = append(parts, string(name)+":"+m[1])
	}
	return jsontext.Value("{" + strings.Join(parts, ",") + "}")
}

// request describes an operation at a path.
func request(o *api.Operation, path, id, does string) string {
	text := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	media := func(kind, schema string) [2]string { return [2]string{kind, `{"schema":` + schema + `}`} }
	content := func(all ...[2]string) string {
		return string(members(slices.DeleteFunc(all, func(m [2]string) bool { return m[1] == `{"schema":}` })))
	}
	all := [][2]string{{"operationId", text(id)}, {"tags", `["edge"]`}, {"summary", text(does)}}
	if o.HTTP.More != "" {
		all = append(all, [2]string{"description", text(o.HTTP.More)})
	}
	var parameters []string
	if _, key, ok := strings.Cut(path[strings.LastIndex(path, "/"):], "{"); ok {
		says := map[string]string{"name}": "Name of the " + kindIn(path) + ", percent-encoded.", "uri}": "The resource's URI, percent-encoded."}[key]
		if says != "" {
			says = `,"description":` + text(says)
		}
		parameters = append(parameters, `{"name":`+text(strings.TrimSuffix(key, "}"))+`,"in":"path","required":true,"schema":{"type":"string"}`+says+`}`)
	}
	if method, _, _ := strings.Cut(o.HTTP.Path, " "); method == "PUT" || method == "PATCH" || method == "DELETE" {
		parameters = append(parameters, `{"name":"If-Match","in":"header","schema":{"type":"string"},"description":"The revision that the resource must have; 409 if it has another."}`)
	}
	if o.Pages {
		parameters = append(parameters, `{"$ref":"#/components/parameters/Cursor"}`, `{"$ref":"#/components/parameters/Limit"}`)
	}
	if o.HTTP.Keyed {
		parameters = append(parameters, `{"$ref":"#/components/parameters/IdempotencyKey"}`)
	}
	if o.HTTP.Also != "" {
		parameters = append(parameters, o.HTTP.Also)
	}
	if parameters != nil {
		all = append(all, [2]string{"parameters", "[" + strings.Join(parameters, ",") + "]"})
	}
	if o.HTTP.Takes != "" {
		all = append(all, [2]string{"requestBody", fmt.Sprintf(`{"required":%v,"content":%s}`, !o.HTTP.Optional,
			content(media("application/json", o.HTTP.Takes), media("application/x-ndjson", o.HTTP.TakesLine)))})
	}
	return string(members(append(all, [2]string{"responses", responses(o, text, media, content)})))
}

// kindIn is what a path is about: a tool for /tools/{name}.
func kindIn(path string) string {
	parts := strings.Split(path, "/")
	return strings.TrimSuffix(parts[len(parts)-2], "s")
}

func responses(o *api.Operation, text func(string) string, media func(kind, schema string) [2]string, content func(...[2]string) string) string {
	events := ""
	if o.Streams {
		events = `{"type":"string","description":"Events progress and log as they come, then result or error."}`
	}
	body := `,"content":` + content(media("application/json", o.HTTP.As), media("text/event-stream", events), media("application/x-ndjson", o.HTTP.AsLine))
	var all [][2]string
	switch {
	case o.HTTP.As == "":
		all = append(all, [2]string{"204", `{"description":` + text(o.HTTP.Gives) + `}`})
	case o.HTTP.Gives != "":
		all = append(all, [2]string{"200", `{"description":` + text(o.HTTP.Gives) + body + `}`})
	}
	if o.HTTP.Made != "" {
		all = append(all, [2]string{"201", `{"description":` + text(o.HTTP.Made) + body + `}`})
	}
	if o.HTTP.Tagged {
		all = append(all, [2]string{"304", `{"description":"Not changed since If-None-Match"}`})
	}
	if o.Waits {
		all = append(all, [2]string{"202", `{"$ref":"#/components/responses/Held"}`})
	}
	return string(members(append(all, [2]string{"default", `{"$ref":"#/components/responses/Problem"}`})))
}
