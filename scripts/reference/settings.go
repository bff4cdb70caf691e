package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// setting is an environment variable. The first declaration in the order of paths says what it is.
type setting struct {
	variable, help, value string
	flags                 []string // only of fields that --help shows
	secret, password      bool
	path                  string
	commands              map[string]bool
}

type settings struct {
	code     *code
	byName   map[string]*setting
	leaves   []string // commands without subcommands
	services []string // that every process of a service is
	shown    map[string]bool
}

// commandLine is where the command line of busbar is declared.
const commandLine = "services/busbar/cmd/busbar"

// findSettings reads the struct tags that make flags and variables, from the command line of busbar
// down: it has a command for each program.
func findSettings(c *code) (*settings, error) {
	s := &settings{code: c, byName: map[string]*setting{}, shown: map[string]bool{}}
	main := c.dirs[commandLine]
	if main == nil || main.structNamed("commandLine") == nil {
		return nil, errors.New("no command line in " + commandLine)
	}
	s.walk(main.structNamed("commandLine"), "")
	command := c.dirs["libs/service"].structNamed("Command")
	for _, f := range main.files {
		ast.Inspect(f.File, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			of, _ := call.Fun.(*ast.Ident)
			name, _ := call.Args[0].(*ast.BasicLit)
			build, _ := call.Args[1].(*ast.SelectorExpr)
			if of == nil || of.Name != "newPart" || name == nil || build == nil {
				return true
			}
			env := c.environment(f, build)
			if env == nil {
				return true
			}
			service, _ := strconv.Unquote(name.Value)
			s.services = append(s.services, service)
			s.walk(&structOf{command.file, command.spec, map[string]*structOf{command.spec.TypeParams.List[0].Names[0].Name: env}}, service)
			return true
		})
	}
	s.services = append(s.services, "audit serve")
	return s, s.unseen()
}

// environment returns the struct with the settings of a service, from the function that builds it.
func (c *code) environment(f *file, build *ast.SelectorExpr) *structOf {
	x, ok := build.X.(*ast.Ident)
	if !ok {
		return nil
	}
	p := c.imported(f, x.Name)
	if p == nil {
		return nil
	}
	declared, fn := p.function(build.Sel.Name)
	if fn == nil {
		return nil
	}
	last := fn.Type.Params.List[len(fn.Type.Params.List)-1]
	return c.find(declared, last.Type, nil)
}

// walk adds the settings of a struct to a command.
func (s *settings) walk(of *structOf, command string) {
	if of == nil {
		return
	}
	if group, _, ok := strings.Cut(command, " "); ok && !slices.Contains(s.leaves, command) {
		s.leaves = append(slices.DeleteFunc(s.leaves, func(name string) bool { return name == group }), command)
	}
	for _, field := range of.spec.Type.(*ast.StructType).Fields.List {
		var tag reflect.StructTag
		if field.Tag != nil {
			text, _ := strconv.Unquote(field.Tag.Value)
			tag = reflect.StructTag(text)
		}
		_, isCommand := tag.Lookup("cmd")
		_, embedded := tag.Lookup("embed")
		name := ""
		if len(field.Names) > 0 {
			name = field.Names[0].Name
		}
		switch {
		case tag.Get("kong") == "-":
		case isCommand:
			s.walk(s.code.find(of.file, field.Type, of.with), strings.TrimSpace(command+" "+cmp.Or(tag.Get("name"), flagName(name))))
		case name == "" || embedded:
			s.walk(s.code.find(of.file, field.Type, of.with), command)
		case tag.Get("env") != "":
			s.add(of.file, field, name, tag, command)
		}
	}
}

func (s *settings) add(f *file, field *ast.Field, name string, tag reflect.StructTag, command string) {
	one := s.byName[tag.Get("env")]
	if one == nil || rank(f.path) < rank(one.path) {
		flags, commands := []string(nil), map[string]bool{}
		if one != nil {
			flags, commands = one.flags, one.commands
		}
		one = &setting{variable: tag.Get("env"), path: f.path, flags: flags, commands: commands}
		secret, isSecret := tag.Lookup("secret")
		one.secret, one.password = isSecret && secret == "", secret == "password"
		one.help, one.value = s.words(f, field, tag)
		s.byName[one.variable] = one
	}
	one.commands[cmp.Or(command, "every program")] = true
	if _, hidden := tag.Lookup("hidden"); !hidden {
		if flag := "--" + cmp.Or(tag.Get("name"), flagName(name)); !slices.Contains(one.flags, flag) {
			one.flags = append(one.flags, flag)
		}
	}
}

// rank orders declarations: what a part says of its setting counts before what busbar's commands say.
func rank(path string) string {
	if strings.HasPrefix(path, commandLine) {
		return "~" + path
	}
	return path
}

var (
	saidDefault = regexp.MustCompile(`(?i) *\(default:? ([^)]*)\)|\bDefault (none|all|0, any number|https?://\S+|the system's)\.|Default: ([^.]*)\.|\bDefault (\$.*)\.$`)
	upper       = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)
)

// words returns the help of a field without its default, and the default.
func (s *settings) words(f *file, field *ast.Field, tag reflect.StructTag) (help, value string) {
	help, value = tag.Get("help"), tag.Get("default")
	if m := saidDefault.FindStringSubmatch(help); m != nil {
		help = strings.TrimSpace(strings.Replace(help, m[0], "", 1))
		if said := cmp.Or(m[1], m[2], m[3], markup(m[4])); value == "" && said != "none" {
			value = said
			if !strings.Contains(said, " ") && said != "all" {
				value = quoted(said)
			}
			return help, value
		}
	}
	if kind, ok := field.Type.(*ast.Ident); ok && kind.Name == "bool" && value == "" {
		return help, "off"
	}
	if value == "${default_url}" {
		value = s.code.text(f, "client", "DefaultURL")
	}
	if value == "" {
		return help, "none"
	}
	return help, quoted(value)
}

// text returns a constant of a package that a file imports.
func (c *code) text(f *file, in, name string) string {
	p := c.imported(f, in)
	if p == nil {
		return ""
	}
	for _, f := range p.files {
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.CONST {
				continue
			}
			for _, one := range g.Specs {
				v := one.(*ast.ValueSpec)
				if len(v.Values) == 0 || v.Names[0].Name != name {
					continue
				}
				if lit, ok := v.Values[0].(*ast.BasicLit); ok {
					text, _ := strconv.Unquote(lit.Value)
					return text
				}
			}
		}
	}
	return ""
}

// flagName is the name that kong gives the flag of a field.
func flagName(field string) string {
	return strings.ToLower(upper.ReplaceAllString(field, "$1$3-$2$4"))
}

var settingName = regexp.MustCompile(`BUSBAR_[A-Z][A-Z_]*[A-Z]`)

// unseen reports variables in the code that have no tag.
func (s *settings) unseen() error {
	for _, f := range s.code.files() {
		for _, name := range settingName.FindAllString(f.text, -1) {
			one := s.byName[strings.TrimSuffix(name, "_FILE")]
			ofFile := one != nil && (one.secret || one.password)
			if s.byName[name] == nil && !ofFile && !strings.HasPrefix(name, "BUSBAR_TEST_") {
				return fmt.Errorf("%s has %s, and no struct tag of a command declares it", f.path, name)
			}
		}
	}
	return nil
}

// tables show the settings that are declared below the given paths and that no table has yet: one
// table for each set of commands.
func (s *settings) tables(paths ...string) string {
	byCommands := map[string][]*setting{}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		one := s.byName[name]
		if !s.shown[name] && slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(one.path, p) || one.variable == p }) {
			s.shown[name] = true
			byCommands[s.commands(one)] = append(byCommands[s.commands(one)], one)
		}
	}
	var parts []string
	for _, commands := range slices.SortedFunc(maps.Keys(byCommands), func(a, b string) int {
		return cmp.Or(len(byCommands[b])-len(byCommands[a]), strings.Compare(a, b))
	}) {
		var rows [][]string
		notes := ""
		for _, one := range byCommands[commands] {
			what, more := split(one.help)
			flags := "–"
			if len(one.flags) > 0 {
				flags = "`" + strings.Join(one.flags, "`, `") + "`"
			}
			rows = append(rows, []string{quoted(one.variable), flags, one.value, markup(what)})
			if more != "" {
				notes += wrap("- "+quoted(one.variable)+": "+markup(more), "  ")
			}
		}
		part := wrap("Used by "+commands+":", "") + "\n" + table([]string{"variable", "flag", "default", "what"}, rows)
		if notes != "" {
			part += "\n" + notes
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, "\n")
}

// named lists the variables that are declared below a path.
func (s *settings) named(path string) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		if strings.HasPrefix(s.byName[name].path, path) {
			names = append(names, quoted(name))
		}
	}
	return wrap("[Settings](../settings.md#services): "+strings.Join(names, ", ")+".", "")
}

// commands names the commands of a setting.
func (s *settings) commands(one *setting) string {
	if one.commands["every program"] {
		return "every program"
	}
	left := maps.Clone(one.commands)
	var names []string
	if !slices.ContainsFunc(s.services, func(service string) bool { return !left[service] }) {
		names = append(names, "every service")
		for _, service := range s.services {
			delete(left, service)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if group, _, ok := strings.Cut(name, " "); ok && !slices.ContainsFunc(s.leaves, func(leaf string) bool {
			return strings.HasPrefix(leaf, group+" ") && !one.commands[leaf]
		}) {
			name = group // all its subcommands have the setting
		}
		if name = quoted(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// codeWord is a part of a help text that a page shows as code.
var codeWord = regexp.MustCompile(`(^|[\s(:,])(--[a-z][a-z-]*|BUSBAR_[A-Z_*]+|OTEL_[A-Z_*]+|\$[A-Z_]+\S*|/[a-z]+\b|~?/\.?[a-z]+/\S*[a-z/]|[a-z]+(?:\.[a-z]+)?=/\S*[a-z]|[a-z]+://(?:\S*[a-z0-9*])?|\d+\.\d+\.\d+\.\d+:\d+)`)

// markup puts flags, variables, paths and URLs in backquotes.
func markup(text string) string { return codeWord.ReplaceAllString(text, "$1`$2`") }

var composed = regexp.MustCompile(`\$\{(BUSBAR_[A-Z_]+)(?::-([^}]*))?`)

// compose shows the variables of docker-compose.yml that no program has. Their meanings are given as
// pairs of a name and a text.
func (s *settings) compose(pairs ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join(s.code.root, "docker-compose.yml"))
	if err != nil {
		return "", err
	}
	values, names := map[string][]string{}, []string{}
	for _, m := range composed.FindAllStringSubmatch(string(text), -1) {
		if s.byName[m[1]] != nil {
			continue
		}
		if values[m[1]] == nil {
			names = append(names, m[1])
			values[m[1]] = []string{}
		}
		if m[2] != "" && !slices.Contains(values[m[1]], "`"+m[2]+"`") {
			values[m[1]] = append(values[m[1]], "`"+m[2]+"`")
		}
	}
	slices.Sort(names)
	var rows [][]string
	for _, name := range names {
		at := slices.Index(pairs, name)
		if at < 0 {
			return "", fmt.Errorf("docker-compose.yml has %s, which scripts/reference/pages/settings.md.tmpl does not explain", name)
		}
		rows = append(rows, []string{quoted(name), cmp.Or(strings.Join(values[name], ", "), "none"), pairs[at+1]})
	}
	if 2*len(rows) != len(pairs) {
		return "", errors.New("scripts/reference/pages/settings.md.tmpl explains a variable that docker-compose.yml does not have")
	}
	return table([]string{"variable", "default", "what"}, rows), nil
}

func (s *settings) left() error {
	for name, one := range s.byName {
		if !s.shown[name] {
			return fmt.Errorf("%s: no table of scripts/reference/pages/settings.md.tmpl has %s", one.path, name)
		}
	}
	return nil
}
