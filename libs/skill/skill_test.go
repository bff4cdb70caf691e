package skill_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/skill"
)

const about = "---\nname: pdf-forms\ndescription: Fills in forms.\n---\n"

// dir is a skill's directory: files by path.
func dir(main string, files map[string]string) fstest.MapFS {
	d := fstest.MapFS{mcp.SkillFile: {Data: []byte(main)}}
	for path, data := range files {
		d[path] = &fstest.MapFile{Data: []byte(data)}
	}
	return d
}

func TestRead(t *testing.T) {
	t.Parallel()
	s, err := skill.Read(dir(about+"\nBody.\n", map[string]string{
		"a.txt": "a", "references/FORMS.md": "# Forms", "references/deep/data.json": "{}", "image.png": "\x89PNG\r\n\x1a\n", "script.py": "print()",
		"LICENSE": "Free.", "latin1.txt": "\xe4", "empty": "", "blob": "\x00\x01", "SHOUT.YAML": "a: b", "page": "<!DOCTYPE html><p>", "sub/SKILL.md": "nested",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "pdf-forms" || s.Description != "Fills in forms." || string(s.Frontmatter) != `{"name":"pdf-forms","description":"Fills in forms."}` {
		t.Errorf("skill %+v", s)
	}
	var got []string
	for _, f := range s.Files {
		got = append(got, fmt.Sprint(f.Path, " ", f.MIMEType, " ", f.Text, " ", len(f.Data)))
	}
	want := []string{
		"LICENSE text/plain true 5", "SHOUT.YAML application/yaml true 4", "SKILL.md text/markdown true 60", "a.txt text/plain true 1", "blob application/octet-stream false 2", "empty text/plain true 0",
		"image.png image/png false 8", "latin1.txt text/plain false 1", "page text/html true 18", "references/FORMS.md text/markdown true 7", "references/deep/data.json application/json true 2",
		"script.py text/x-python true 7", "sub/SKILL.md text/markdown true 6",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("files\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// The frontmatter is passed on whole, and in its order.
func TestFrontmatter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ yaml, want string }{
		"all kinds of value": {"license: Apache-2.0\nmetadata:\n  version: \"1.10\"\n  n: -12\n  f: 1.50\n  \"yes\": true\n  none: ~\n  empty:\n  list:\n  - a\n  - [b, {c: d}]\n",
			`,"license":"Apache-2.0","metadata":{"version":"1.10","n":-12,"f":1.50,"yes":true,"none":null,"empty":null,"list":["a",["b",{"c":"d"}]]}`},
		"texts of many lines":    {"a: |\n  one\n  two\nb: >-\n  one\n  two\n", `,"a":"one\ntwo\n","b":"one two"`},
		"comments":               {"a: b # c\n# d\n", `,"a":"b"`},
		"quotes and characters":  {"a: 'it''s'\nb: \"\\u00e4 \\\"\"\nc: żółw\n", `,"a":"it's","b":"ä \"","c":"żółw"`},
		"what looks like a date": {"a: '2026-07-28'\nb: 7:5x\n", `,"a":"2026-07-28","b":"7:5x"`},
		"nothing more":           {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for ending, text := range map[string]string{"LF": "---\nname: n\ndescription: d\n" + c.yaml + "---\n---\nname: other\n", "end of file": "---\nname: n\ndescription: d\n" + c.yaml + "---"} {
				s, err := skill.Read(dir(text, nil))
				if err != nil {
					t.Fatalf("%s: %v", ending, err)
				}
				if want := `{"name":"n","description":"d"` + c.want + `}`; string(s.Frontmatter) != want {
					t.Errorf("%s: %s, want %s", ending, s.Frontmatter, want)
				}
			}
		})
	}
	s, err := skill.Read(dir("---\r\nname: n\r\ndescription: |\r\n  a\r\n  b\r\n---\t\r\nBody", nil))
	if err != nil || s.Description != "a\nb\n" {
		t.Errorf("with CRLF: %+v, %v", s, err)
	}
}

// A skill that hosts might refuse is refused before it is served, and the message says where and
// why.
func TestMalformed(t *testing.T) {
	t.Parallel()
	field := func(yaml string) fs.FS { return dir("---\nname: n\ndescription: d\n"+yaml+"\n---\n", nil) }
	named := func(name string) fs.FS { return dir("---\nname: "+name+"\ndescription: d\n---\n", nil) }
	described := func(text string) fs.FS { return dir("---\nname: n\ndescription: "+text+"\n---\n", nil) }
	many := map[string]string{}
	for i := range mcp.MaxSkillFiles {
		many[fmt.Sprintf("%d.txt", i)] = ""
	}
	big := strings.Repeat("x", mcp.MaxSkillBytes/2)
	linked := dir(about, nil)
	linked["link"] = &fstest.MapFile{Mode: fs.ModeSymlink, Data: []byte("/etc/passwd")}
	ambiguous := "put it in quotes"
	for name, c := range map[string]struct {
		dir  fs.FS
		want string
	}{
		"is missing":               {nil, "is missing"},
		"an empty directory":       {fstest.MapFS{}, "no SKILL.md"},
		"SKILL.md not at the root": {fstest.MapFS{"sub/SKILL.md": {Data: []byte(about)}}, "no SKILL.md"},
		"skill.md in lower case":   {fstest.MapFS{"skill.md": {Data: []byte(about)}}, "no SKILL.md"},
		"SKILL.md a directory":     {fstest.MapFS{"SKILL.md/x": {}}, "no SKILL.md"},
		"513 files":                {dir(about, many), "more than 512 files"},
		"too many bytes":           {dir(about, map[string]string{"a": big, "b": big}), "16 MiB"},
		"a link":                   {linked, "link is not a regular file"},
		"a deep path":              {dir(about, map[string]string{strings.Repeat("d/", 16) + "f": ""}), "16 names"},
		"a long path":              {dir(about, map[string]string{strings.Repeat("p", 257): ""}), "256 bytes"},
		"an empty file":            {dir("", nil), "has no frontmatter"},
		"no frontmatter":           {dir("# Title\n", nil), "has no frontmatter"},
		"a byte order mark":        {dir("\ufeff"+about, nil), "has no frontmatter"},
		"frontmatter later":        {dir("\n"+about, nil), "has no frontmatter"},
		"frontmatter without end":  {dir("---\nname: n\n", nil), "has no frontmatter"},
		"an endless frontmatter":   {dir("---\nname: "+strings.Repeat("n", 40<<10)+"\n---\n", nil), "longer than 32 KiB"},
		"not UTF-8":                {dir(about+"\xff", nil), "not UTF-8"},
		"not YAML":                 {field("a: [b"), "frontmatter: yaml: line"},
		"two documents":            {field("...\n--- b"), "more than one YAML document"},
		"two documents in one":     {field("--- {b: c}"), "more than one YAML document"},
		"a list":                   {dir("---\n- name\n---\n", nil), "not a list of names and values"},
		"a text":                   {dir("---\nname\n---\n", nil), "not a list of names and values"},
		"nothing":                  {dir("---\n---\n", nil), "frontmatter"},
		"no name":                  {dir("---\ndescription: d\n---\n", nil), "no name"},
		"a name that is no text":   {named("[a]"), "no name"},
		"an empty name":            {named("''"), `name ""`},
		"a name in capitals":       {named("Name"), `name "Name"`},
		"a name with underscore":   {named("a_b"), `name "a_b"`},
		"a name with a slash":      {named("a/b"), `name "a/b"`},
		"a hyphen first":           {named("'-a'"), `name "-a"`},
		"a hyphen last":            {named("a-"), `name "a-"`},
		"two hyphens":              {named("a--b"), `name "a--b"`},
		"a name of 65":             {named(strings.Repeat("n", 65)), "name"},
		"no description":           {dir("---\nname: n\n---\n", nil), "no description"},
		"a blank description":      {described("' '"), "no description"},
		"a description that is no": {described("7"), "no description"},
		"a long description":       {described(strings.Repeat("ä", 1025)), "1025 characters; the limit is 1024"},
		"a member twice":           {field("a: 1\nb: {c: 1, c: 2}"), `line 5: "c" appears twice`},
		"an anchor":                {field("a: &x 1"), "line 4: anchors"},
		"an alias":                 {field("a: {x: &x b}\nc: *x"), "anchors"},
		"a merge":                  {field("<<: {a: b}"), "key"},
		"a tag":                    {field("a: !!binary aGk="), "tags"},
		"a tag of one's own":       {field("a: !x {b: c}"), "tags"},
		"a key that is a number":   {field("1: a"), "key"},
		"a key that is a list":     {field("? [a]\n: b"), "key"},
		"a key that may be truth":  {field("on: push"), ambiguous},
		"deep":                     {field("a: " + strings.Repeat("[", 20) + strings.Repeat("]", 20)), "16 levels"},
		"a date":                   {field("a: 2026-07-28"), ambiguous},
		"no that may be false":     {field("a: No"), ambiguous},
		"an octal number":          {field("a: 0777"), ambiguous},
		"a number with _":          {field("a: 1_000"), ambiguous},
		"a time":                   {field("a: 12:30:45"), ambiguous},
		"infinity":                 {field("a: .inf"), ambiguous},
		"a power":                  {field("a: 1e3"), ambiguous},
		"a hexadecimal number":     {field("a: 0x1F"), ambiguous},
		"many digits":              {field("a: 12345678901234567"), ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if s, err := skill.Read(c.dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v; want an error with %q", s, err, c.want)
			}
		})
	}
}

func TestReadOfTheDisk(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := os.WriteFile(filepath.Join(top, mcp.SkillFile), []byte(about), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := skill.Read(os.DirFS(top)); err != nil || len(s.Files) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := os.Symlink("/", filepath.Join(top, "root")); err != nil {
		t.Fatal(err)
	}
	if s, err := skill.Read(os.DirFS(top)); err == nil {
		t.Errorf("a link out of the directory is followed: %+v", s)
	}
	if s, err := skill.Read(os.DirFS(filepath.Join(top, "none"))); err == nil {
		t.Errorf("there is a skill in no directory: %+v", s)
	}
}

// host finds a frontmatter as the conformance suite does, and as hosts may.
var host = regexp.MustCompile(`^---\r?\n([\s\S]*?\r?\n)---[ \t]*(?:\r?\n|$)`)

// Whatever a SKILL.md contains, its frontmatter becomes strict JSON that agrees with another YAML
// reader.
func FuzzRead(f *testing.F) {
	for _, yaml := range []string{
		"a: b", "a: {b: [1, -2.5, true, null, ~, '']}", "a: |\n  x\n", "a: >\n  x\n", "a: 2026-07-28", "1: 2", "a: 0o17", "a: &x 1\nb: *x", "<<: {a: b}", "a: !!str 1", "a: ! 1", "? a\n: b",
		"a: 1_000", "a: \"\\u0000\"", "a: \"\\ud800\"", "a: - b", "...", "--- a", "%YAML 1.1", "a: \u2028", "a: +1", "a: .5", "a: -0", "a: Null", "a: TRUE",
	} {
		f.Add([]byte("---\nname: n\ndescription: d\n" + yaml + "\n---\nBody"))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		s, err := skill.Read(dir(string(file), nil))
		if err != nil {
			return
		}
		var got, want map[string]any
		if err := json.Unmarshal(s.Frontmatter, &got); err != nil || strings.ContainsAny(string(s.Frontmatter), "\r\n") {
			t.Fatalf("frontmatter %q: %v", s.Frontmatter, err)
		}
		if err := yaml.Unmarshal(host.FindSubmatch(file)[1], &want); err != nil {
			t.Fatalf("another reader finds no YAML: %v", err)
		}
		if !reflect.DeepEqual(got, doubles(want)) {
			t.Fatalf("says %v, is %v", got, want)
		}
		if got["name"] != s.Name || got["description"] != s.Description || mcp.CheckSkillName(s.Name) != nil {
			t.Fatalf("%+v says %v", s, got)
		}
	})
}

// doubles converts the numbers of YAML to JSON numbers.
func doubles(v any) any {
	switch v := v.(type) {
	case map[string]any:
		m := maps.Clone(v)
		for k := range m {
			m[k] = doubles(m[k])
		}
		return m
	case []any:
		for i := range v {
			v[i] = doubles(v[i])
		}
		return v
	case int:
		return float64(v)
	}
	return v
}
