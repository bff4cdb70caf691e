package catalogue_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func skillFile(path string) *busv1.SkillFile {
	digest := sha256.Sum256(nil)
	return &busv1.SkillFile{Path: path, MimeType: "text/markdown", Size: 7, Digest: digest[:]}
}

// skill has a SKILL.md and more files.
func skill(name string, files ...string) *busv1.Skill {
	k := &busv1.Skill{Name: name, Frontmatter: []byte(`{"name":"` + name + `","description":"d"}`), Files: []*busv1.SkillFile{skillFile(mcp.SkillFile)}}
	for _, path := range files {
		k.Files = append(k.Files, skillFile(path))
	}
	return k
}

func skills(service string, all ...*busv1.Skill) *busv1.Catalogue {
	return &busv1.Catalogue{Service: service, Skills: all}
}

const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestSkills(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	forms := skill("forms", "ref/b.md", "ref/a b.md", "ref/deep/er/c.md")
	forms.Frontmatter = []byte("{\n  \"name\": \"forms\",\r\n  \"description\": \"d\", \"x\": [1.50]\n}")
	announce(t, url, skills("svc", forms))
	bustest.Eventually(t, "it is there", func() bool { _, ok := live.Now().Skill("skill://svc/forms/SKILL.md"); return ok })
	now := live.Now()
	if p := now.Problems(); len(p) > 0 {
		t.Errorf("problems %q", p)
	}

	manifest := ""
	for _, path := range []string{"SKILL.md", "ref/a%20b.md", "ref/b.md", "ref/deep/er/c.md"} {
		manifest += `,{"uri":"skill://svc/forms/` + path + `","digest":"sha256:` + empty + `","size":7}`
	}
	want := `{"uri":"skill://svc/forms/SKILL.md","frontmatter":{"name":"forms","description":"d","x":[1.50]},"resources":[` + manifest[1:] + `]}`
	if entry, _ := now.Skill("skill://svc/forms/SKILL.md"); string(entry) != want {
		t.Errorf("entry %s\nwant  %s", entry, want)
	}
	if page, err := pageOf(now, catalogue.Skills, nil); err != nil || string(page) != `"skills":[`+want+`]` {
		t.Errorf("list %s, %v", page, err)
	}
	for uri, want := range map[string]string{
		"skill://svc/forms": `{"uri":"skill://svc/forms/SKILL.md","name":"forms","description":"d","mimeType":"text/markdown","size":7},{"uri":"skill://svc/forms/ref","name":"ref","mimeType":"inode/directory"}`,
		"skill://svc/forms/ref": `{"uri":"skill://svc/forms/ref/a%20b.md","name":"a b.md","mimeType":"text/markdown","size":7},{"uri":"skill://svc/forms/ref/b.md","name":"b.md","mimeType":"text/markdown","size":7},` +
			`{"uri":"skill://svc/forms/ref/deep","name":"deep","mimeType":"inode/directory"}`,
		"skill://svc/forms/ref/deep":    `{"uri":"skill://svc/forms/ref/deep/er","name":"er","mimeType":"inode/directory"}`,
		"skill://svc/forms/ref/deep/er": `{"uri":"skill://svc/forms/ref/deep/er/c.md","name":"c.md","mimeType":"text/markdown","size":7}`,
	} {
		if got, ok, err := now.Directory(uri, nil); !ok || err != nil || string(got) != `"resources":[`+want+`]` {
			t.Errorf("%s: %s, %v, %v", uri, got, ok, err)
		}
		if _, ok := now.Resource(uri); ok {
			t.Errorf("%s can be read", uri)
		}
	}
	for _, uri := range []string{"", "skill://svc", "skill://svc/forms/", "skill://svc/forms/SKILL.md", "skill://svc/none", "skill://svc/forms/ref/", "SKILL://svc/forms"} {
		if got, ok, err := now.Directory(uri, nil); ok || err != nil {
			t.Errorf("%q is a directory: %s, %v", uri, got, err)
		}
	}
	for uri, service := range map[string]string{"skill://svc/forms/SKILL.md": "svc", "skill://svc/forms/ref/a%20b.md": "svc", "skill://svc/forms/ref/a b.md": "", "skill://svc/forms/none": ""} {
		if target, ok := now.Resource(uri); ok != (service != "") || target.Service != service {
			t.Errorf("%q is read by %q, want %q", uri, target.Service, service)
		}
	}
}

// If two services have a skill of the same name, the first in the order of services has the name,
// at every edge. Only their own service reads the files of a skill.
func TestSkillsOfOneName(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	one := watch(t, url)
	thief := skills("a", skill("forms", "mine.md"))
	thief.Resources, thief.ResourceTemplates = []*busv1.Resource{entry("skill://b/forms/SKILL.md")}, []*busv1.ResourceTemplate{template("skill://b/{+x}")}
	first := announce(t, url, thief)
	announce(t, url, skills("b", skill("forms", "ref/b.md"), skill("other")))
	bustest.Eventually(t, "both are there", func() bool { return len(one.Services()) == 2 })
	two := watch(t, url)
	page, err := pageOf(one.Now(), catalogue.Skills, nil)
	again, _ := pageOf(two.Now(), catalogue.Skills, nil)
	if err != nil || !bytes.Equal(page, again) {
		t.Errorf("two edges list\n%s\n%s, %v", page, again, err)
	}
	list := func() (uris []string) {
		t.Helper()
		page, err := pageOf(one.Now(), catalogue.Skills, nil)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Skills []struct {
				URI string `json:"uri"`
			} `json:"skills"`
		}
		if err := json.Unmarshal([]byte("{"+string(page)+"}"), &p); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Skills {
			uris = append(uris, s.URI)
		}
		return uris
	}
	if got := fmt.Sprint(list()); got != "[skill://a/forms/SKILL.md skill://b/other/SKILL.md]" {
		t.Errorf("listed are %s", got)
	}
	if p := one.Now().Problems(); len(p) != 2 || !strings.Contains(p[0], `skill "forms" of service b is left out: the name belongs to service a`) ||
		!strings.Contains(p[1], `resource "skill://b/forms/SKILL.md" of service a is left out: it is a file of a skill of service b`) {
		t.Errorf("problems %q", p)
	}
	for uri, service := range map[string]string{"skill://a/forms/mine.md": "a", "skill://b/forms/SKILL.md": "b", "skill://b/forms/ref/b.md": "b", "skill://b/other/SKILL.md": "b", "skill://b/none": "a"} {
		if target, _ := one.Now().Resource(uri); target.Service != service {
			t.Errorf("%s is read by %q, want %q", uri, target.Service, service)
		}
	}
	first.leave()
	if err := catalogue.Assign(t.Context(), bustest.Connect(t, url), catalogue.Name{Kind: catalogue.SkillName, Name: "forms"}, "b"); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the name is the other's", func() bool { return fmt.Sprint(list()) == "[skill://b/forms/SKILL.md skill://b/other/SKILL.md]" })
}

// A service that is not written with libs/service may say anything.
func TestMalformedSkills(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	with := func(change func(*busv1.Skill)) *busv1.Skill {
		k := skill("bad", "ref/a.md")
		change(k)
		return k
	}
	about := func(frontmatter string) *busv1.Skill {
		return with(func(k *busv1.Skill) { k.Frontmatter = []byte(frontmatter) })
	}
	for name, bad := range map[string]*busv1.Skill{
		"no name":                   with(func(k *busv1.Skill) { k.Name, k.Frontmatter = "", []byte(`{"name":"","description":"d"}`) }),
		"a name that leads away":    with(func(k *busv1.Skill) { k.Name, k.Frontmatter = "../x", []byte(`{"name":"../x","description":"d"}`) }),
		"another name":              about(`{"name":"good","description":"d"}`),
		"no description":            about(`{"name":"bad"}`),
		"an empty description":      about(`{"name":"bad","description":""}`),
		"a description of numbers":  about(`{"name":"bad","description":7}`),
		"no frontmatter":            about(``),
		"null":                      about(`null`),
		"a list":                    about(`[]`),
		"two values":                about(`{"name":"bad","description":"d"},"resources":"dynamic"`),
		"a member twice":            about(`{"name":"bad","description":"d","x":{"y":1,"y":2}}`),
		"bad UTF-8":                 about("{\"name\":\"bad\",\"description\":\"\xff\"}"),
		"no files":                  with(func(k *busv1.Skill) { k.Files = nil }),
		"no SKILL.md":               with(func(k *busv1.Skill) { k.Files = k.Files[1:] }),
		"a file twice":              with(func(k *busv1.Skill) { k.Files = append(k.Files, skillFile("ref/a.md")) }),
		"a file and a directory":    with(func(k *busv1.Skill) { k.Files = append(k.Files, skillFile("ref")) }),
		"a path that leads away":    with(func(k *busv1.Skill) { k.Files[1].Path = "../other/SKILL.md" }),
		"a path from the root":      with(func(k *busv1.Skill) { k.Files[1].Path = "/etc" }),
		"a deep path":               with(func(k *busv1.Skill) { k.Files[1].Path = strings.Repeat("d/", 20) + "f" }),
		"no digest":                 with(func(k *busv1.Skill) { k.Files[1].Digest = nil }),
		"a short digest":            with(func(k *busv1.Skill) { k.Files[1].Digest = []byte("abc") }),
		"too many bytes":            with(func(k *busv1.Skill) { k.Files[1].Size = mcp.MaxSkillBytes }),
		"more bytes than there are": with(func(k *busv1.Skill) { k.Files[0].Size, k.Files[1].Size = 1<<63, 1<<63 }),
		"513 files": with(func(k *busv1.Skill) {
			for i := range mcp.MaxSkillFiles - 1 {
				k.Files = append(k.Files, skillFile(fmt.Sprint(i)))
			}
		}),
	} {
		t.Run(name, func(t *testing.T) {
			// One bus for all, and one service at a time.
			live := watch(t, url)
			a := announce(t, url, skills("svc", bad, skill("good")))
			bustest.Eventually(t, "the good one is there", func() bool { _, ok := live.Now().Skill("skill://svc/good/SKILL.md"); return ok })
			if page, err := pageOf(live.Now(), catalogue.Skills, nil); err != nil || bytes.Count(page, []byte(`"frontmatter"`)) != 1 {
				t.Errorf("listed are %s, %v", page, err)
			}
			if p := live.Now().Problems(); len(p) != 1 || !strings.Contains(p[0], "of service svc is left out") {
				t.Errorf("problems %q", p)
			}
			a.leave()
			bustest.Eventually(t, "it is gone", func() bool { return len(live.Services()) == 0 })
		})
	}
}

func TestPagesOfADirectory(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	var files []string
	for i := range 300 {
		files = append(files, fmt.Sprintf("many/%03d", i))
	}
	announce(t, url, skills("svc", skill("large", files...)))
	bustest.Eventually(t, "it is there", func() bool { _, ok := live.Now().Skill("skill://svc/large/SKILL.md"); return ok })
	type page struct {
		Resources []struct {
			URI string `json:"uri"`
		} `json:"resources"`
		Next *string `json:"nextCursor,omitzero"`
	}
	var got, want []string
	for _, f := range files {
		want = append(want, "skill://svc/large/"+f)
	}
	var cursor []byte
	for pages := 1; ; pages++ {
		raw, ok, err := live.Now().Directory("skill://svc/large/many", cursor)
		var p page
		if !ok || err != nil || json.Unmarshal([]byte("{"+string(raw)+"}"), &p) != nil {
			t.Fatalf("page %d: %s, %v", pages, raw, err)
		}
		for _, r := range p.Resources {
			got = append(got, r.URI)
		}
		if p.Next == nil {
			break
		}
		cursor = []byte(*p.Next)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") || cursor == nil {
		t.Errorf("got %d of %d: %v", len(got), len(want), got)
	}
	if _, _, err := live.Now().Directory("skill://svc/large", cursor); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("a cursor of another directory: %v", err)
	}
	if _, err := pageOf(live.Now(), catalogue.Resources, cursor); !fault.Is(err, fault.InvalidParams) {
		t.Errorf("a cursor of a directory in the list of resources: %v", err)
	}
}

// A subscriber to resources is told of skills too: they are resources, and there is no other
// notification.
func TestSkillsChange(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	live := watch(t, url)
	a := announce(t, url, skills("svc"))
	bustest.Eventually(t, "it is there", func() bool { return len(live.Services()) == 1 })
	sub := live.Subscribe(tenant(""), nil)
	defer sub.Close()
	for _, c := range []*busv1.Catalogue{skills("svc", skill("a")), skills("svc", skill("a", "more.md")), skills("svc")} {
		a.update(c)
		<-sub.C
		if got, _ := sub.Take(); got != catalogue.ResourcesChanged {
			t.Errorf("told of %b", got)
		}
	}
}
