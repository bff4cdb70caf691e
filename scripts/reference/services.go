package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/natsd"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/batch"
	"github.com/busbar-mcp/busbar/services/github"
	"github.com/busbar-mcp/busbar/services/planning"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/text"
	"github.com/busbar-mcp/busbar/services/workspace"
)

// startTime bounds the start of the bus and the services.
const startTime = time.Minute

// bundled makes the services that have a page.
var bundled = map[string]func(ctx context.Context, env service.DataEnv) (*service.Service, error){
	"batch": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return batch.New(ctx, env.Env)
	},
	"github": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return github.New(ctx, github.Env{Env: env.Env})
	},
	"planning": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return planning.New(ctx, env.Env)
	},
	"prompt": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return prompt.New(ctx, prompt.Env{DataEnv: env})
	},
	"resource": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return resource.New(ctx, resource.Env{DataEnv: env})
	},
	"text": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		return text.New(ctx, text.Env{Env: env.Env})
	},
	"workspace": func(ctx context.Context, env service.DataEnv) (*service.Service, error) {
		// Without a root it would offer no resources.
		return workspace.New(ctx, workspace.Env{Env: env.Env, Roots: []string{"main=" + env.DataDir}})
	},
}

// findCatalogues starts the bundled services on a bus in this process, and returns what they announce.
func findCatalogues() (map[string]*busv1.Catalogue, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	dir, err := os.MkdirTemp("", "reference-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	nats, err := natsd.Start(natsd.Config{DataDir: filepath.Join(dir, "nats"), Relaxed: true, Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer nats.Stop()
	conn, err := bus.Connect(ctx, bus.Config{URL: nats.URL(), Name: "reference", Logger: quiet})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if _, err := storage.Ensure(ctx, conn, storage.Auto); err != nil {
		return nil, err
	}
	for name, build := range bundled {
		stop, err := start(ctx, conn, name, build, service.DataEnv{Env: service.Env{Version: "1.0.0", Log: quiet}, DataDir: filepath.Join(dir, name)})
		if err != nil {
			return nil, fmt.Errorf("service %s: %w", name, err)
		}
		defer stop()
	}
	return announced(ctx, conn)
}

func start(ctx context.Context, conn *bus.Conn, name string, build func(context.Context, service.DataEnv) (*service.Service, error), env service.DataEnv) (stop func(), err error) {
	if err := os.MkdirAll(env.DataDir, 0o700); err != nil {
		return nil, err
	}
	s, err := build(ctx, env)
	if err != nil {
		return nil, err
	}
	running, err := s.Start(ctx, conn)
	if err != nil {
		return nil, err
	}
	return func() {
		stopped, cancel := context.WithCancel(context.Background())
		cancel() // nothing runs that would be waited for
		_ = running.Stop(stopped)
	}, nil
}

// announced waits for the catalogues of all bundled services.
func announced(ctx context.Context, conn *bus.Conn) (map[string]*busv1.Catalogue, error) {
	changed := make(chan struct{}, 1)
	r, err := registry.Watch(ctx, conn, func([]registry.Service) {
		select {
		case changed <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		found := map[string]*busv1.Catalogue{}
		for _, s := range r.Services() {
			if bundled[s.Name] != nil && s.Catalogue != nil {
				found[s.Name] = s.Catalogue
			}
		}
		if len(found) == len(bundled) {
			return found, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("only %d services announced what they offer: %w", len(found), ctx.Err())
		}
	}
}

// definition is the part of a page about one tool, prompt or resource.
type definition struct {
	Name, Title, Description string
	URI, URITemplate         string
	InputSchema              ordered
	OutputSchema             ordered
	Arguments                []struct {
		Name, Description string
		Required          bool
	}
}

// catalogue describes all that a service offers.
func catalogue(c *busv1.Catalogue) (string, error) {
	var b strings.Builder
	if len(c.Tools) > 0 {
		b.WriteString("## Tools\n\n")
	}
	tools := make([]definition, len(c.Tools))
	rows := make([][][]string, len(c.Tools))
	uses := map[string]int{}
	for i, t := range c.Tools {
		if err := json.Unmarshal(t.Json, &tools[i]); err != nil {
			return "", err
		}
		if err := json.Unmarshal(t.InputSchema, &tools[i].InputSchema); err != nil {
			return "", err
		}
		parameters(tools[i].InputSchema, tools[i].InputSchema, "", &rows[i])
		for _, row := range rows[i] {
			uses[strings.Join(row, "|")]++
		}
	}
	var common [][]string
	for i := range rows {
		for _, row := range rows[i] {
			if n := uses[strings.Join(row, "|")]; isCommon(row, n) && !slices.ContainsFunc(common, func(other []string) bool { return slices.Equal(other, row) }) {
				common = append(common, row)
			}
		}
	}
	if len(common) > 0 {
		b.WriteString("These parameters are the same for several tools:\n\n" + table(parameterHeader, common) + "\n")
	}
	for i, t := range c.Tools {
		d := tools[i]
		fmt.Fprintf(&b, "### `%s`\n\n%s\n", t.Name, wrap(d.Description+notes(t), ""))
		var own [][]string
		var also []string
		for _, row := range rows[i] {
			if isCommon(row, uses[strings.Join(row, "|")]) {
				if !strings.Contains(row[0], ".") {
					also = append(also, row[0])
				}
				continue
			}
			own = append(own, row)
		}
		if len(own) > 0 {
			b.WriteString(table(parameterHeader, own) + "\n")
		}
		if len(also) > 0 {
			b.WriteString(wrap("As above: "+strings.Join(also, ", ")+".", "") + "\n")
		}
		if fields := results(d.OutputSchema, d.OutputSchema); fields != "" {
			b.WriteString(wrap("Result: "+fields+".", "") + "\n")
		}
	}
	if err := lists(&b, c); err != nil {
		return "", err
	}
	return b.String(), nil
}

var parameterHeader = []string{"parameter", "type", "what"}

// isCommon reports whether a page describes a parameter once for all tools that have it.
func isCommon(row []string, uses int) bool {
	return uses > 2 || uses > 1 && strings.Contains(row[0], ".")
}

// notes are the properties of a tool that are not in its schemas.
func notes(t *busv1.Tool) string {
	var said []string
	for note, set := range map[string]bool{
		"Reads only.": t.ReadOnly, "Idempotent.": t.Idempotent && !t.ReadOnly, "Waits for a person's approval.": t.RequiresUserApproval,
		"Calls other tools.": t.CallsTools, "Takes idempotency keys.": t.KeepsKeys,
	} {
		if set {
			said = append(said, note)
		}
	}
	slices.Sort(said)
	if t.TimeoutMs > 0 {
		said = append(said, "Timeout: "+value{n: int64(t.TimeoutMs) * int64(time.Millisecond), time: true}.String()+".")
	}
	if len(said) == 0 {
		return ""
	}
	return " " + strings.Join(said, " ")
}

// lists describe resources and prompts.
func lists(b *strings.Builder, c *busv1.Catalogue) error {
	var resources, prompts [][]string
	for _, one := range c.Resources {
		var d definition
		if err := json.Unmarshal(one.Json, &d); err != nil {
			return err
		}
		resources = append(resources, []string{quoted(one.Uri), strings.TrimSuffix(cmp.Or(d.Description, d.Title), ".")})
	}
	for _, one := range c.ResourceTemplates {
		var d definition
		if err := json.Unmarshal(one.Json, &d); err != nil {
			return err
		}
		resources = append(resources, []string{quoted(one.UriTemplate), strings.TrimSuffix(cmp.Or(d.Description, d.Title), ".")})
	}
	for _, one := range c.Prompts {
		var d definition
		if err := json.Unmarshal(one.Json, &d); err != nil {
			return err
		}
		var arguments []string
		for _, a := range d.Arguments {
			name := quoted(a.Name)
			if a.Required {
				name += " (required)"
			}
			arguments = append(arguments, name)
		}
		prompts = append(prompts, []string{quoted(one.Name), strings.TrimSuffix(cmp.Or(d.Description, d.Title), "."), cmp.Or(strings.Join(arguments, ", "), "–")})
	}
	if len(resources) > 0 {
		b.WriteString("## Resources\n\n" + table([]string{"URI", "what"}, resources) + "\n")
	}
	if len(prompts) > 0 {
		b.WriteString("## Prompts\n\n" + table([]string{"prompt", "what", "arguments"}, prompts) + "\n")
	}
	return nil
}

// ordered is a JSON object whose members keep their order.
type ordered []member

type member struct {
	name string
	raw  json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler. Other values than objects have no members.
func (o *ordered) UnmarshalJSON(b []byte) error {
	*o = nil
	d := json.NewDecoder(bytes.NewReader(b))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		one := member{name: name.(string)}
		if err := d.Decode(&one.raw); err != nil {
			return err
		}
		*o = append(*o, one)
	}
	return nil
}

// get returns a member as text: a string without quotes, all else as JSON.
func (o ordered) get(name string) string {
	for _, m := range o {
		if m.name != name {
			continue
		}
		var s string
		if json.Unmarshal(m.raw, &s) == nil {
			return s
		}
		return string(m.raw)
	}
	return ""
}

func (o ordered) object(name string) (inner ordered) {
	if text := o.get(name); strings.HasPrefix(text, "{") {
		_ = json.Unmarshal([]byte(text), &inner)
	}
	return inner
}

func (o ordered) list(name string) (all []string) {
	_ = json.Unmarshal([]byte(cmp.Or(o.get(name), "[]")), &all)
	return all
}

// deref follows a reference to a definition of the same schema.
func deref(root, schema ordered) ordered {
	if name, ok := strings.CutPrefix(schema.get("$ref"), "#/$defs/"); ok {
		return root.object("$defs").object(name)
	}
	return schema
}

// maxNesting is how deep the table of parameters looks into objects.
const maxNesting = 3

// parameters adds a row for each property of an object and of the objects in it.
func parameters(root, schema ordered, prefix string, rows *[][]string) {
	required := schema.list("required")
	for _, m := range schema.object("properties") {
		one := deref(root, schema.object("properties").object(m.name))
		kind := typeOf(root, one)
		if slices.Contains(required, m.name) {
			kind += ", required"
		}
		if value := one.get("default"); value != "" {
			kind += ", default `" + value + "`"
		}
		name := prefix + m.name
		*rows = append(*rows, []string{quoted(name), kind, cell(one.get("description"))})
		inner, mark := one, "."
		if items := deref(root, one.object("items")); items != nil {
			inner, mark = items, "[]."
		}
		if inner.object("properties") != nil && strings.Count(name, ".") < maxNesting-1 {
			parameters(root, inner, name+mark, rows)
		}
	}
}

// cell is a text as a table may have it.
func cell(text string) string {
	return cmp.Or(strings.TrimSuffix(strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "\\|"), "."), "–")
}

// typeOf describes the type of a value and its limits.
func typeOf(root, schema ordered) string {
	kind := schema.get("type")
	if strings.HasPrefix(kind, "[") {
		kinds := slices.DeleteFunc(schema.list("type"), func(kind string) bool { return kind == "null" })
		kind = strings.Join(kinds, " or ")
	}
	if values := schema.list("enum"); len(values) > 0 {
		kind = "`" + strings.Join(values, "`, `") + "`"
	} else if value := schema.get("const"); value != "" {
		kind = quoted(value)
	}
	if kind == "array" {
		kind = "list"
		if items := deref(root, schema.object("items")); items != nil {
			kind += " of " + typeOf(root, items)
		}
	}
	for _, r := range []struct{ least, most, unit string }{
		{"minimum", "maximum", ""}, {"minLength", "maxLength", " characters"}, {"minItems", "maxItems", " items"},
	} {
		least, most := schema.get(r.least), schema.get(r.most)
		switch {
		case least == "" && most == "":
		case most == "":
			kind += ", at least " + least + r.unit
		case least == "":
			kind += ", at most " + most + r.unit
		default:
			kind += ", " + least + " to " + most + r.unit
		}
	}
	return cmp.Or(kind, "any")
}

// results names the fields of a result.
func results(root, schema ordered) string {
	var names []string
	for _, m := range schema.object("properties") {
		one := deref(root, schema.object("properties").object(m.name))
		name := quoted(m.name)
		inner := one
		if items := deref(root, one.object("items")); items != nil {
			inner = items
		}
		if fields := inner.object("properties"); fields != nil {
			var all []string
			for _, f := range fields {
				all = append(all, quoted(f.name))
			}
			name += " (" + strings.Join(all, ", ") + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
