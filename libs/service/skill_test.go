package service_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// skillDir is the directory of a skill with three files.
func skillDir(name string) fstest.MapFS {
	return fstest.MapFS{
		"SKILL.md":        {Data: []byte("---\nname: " + name + "\ndescription: Does it.\nlicense: MIT\n---\n# It\n")},
		"ref/a b/FORM.md": {Data: []byte("# Form\r\n")},
		"ref/dot.bin":     {Data: []byte{0, 1, 0xff}},
	}
}

func TestSkill(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	dir := skillDir("forms")
	s.AddSkill(dir)
	// The skill was read when it was added, so later changes have no effect.
	dir["ref/dot.bin"].Data[0], dir["late"] = 7, &fstest.MapFile{}
	c := run(t, s)
	read := func(uri string) *busv1.Request { return &busv1.Request{Method: "resources/read", Name: uri} }
	for uri, want := range map[string]string{
		"skill://svc/forms/SKILL.md":          `{"contents":[{"uri":"skill://svc/forms/SKILL.md","mimeType":"text/markdown","text":"---\nname: forms\ndescription: Does it.\nlicense: MIT\n---\n# It\n"}]}`,
		"skill://svc/forms/ref/a%20b/FORM.md": `{"contents":[{"uri":"skill://svc/forms/ref/a%20b/FORM.md","mimeType":"text/markdown","text":"# Form\r\n"}]}`,
		"skill://svc/forms/ref/dot.bin":       `{"contents":[{"uri":"skill://svc/forms/ref/dot.bin","mimeType":"application/octet-stream","blob":"AAH/"}]}`,
	} {
		same(t, uri, c.result(read(uri)), want)
	}
	for _, uri := range []string{"skill://svc/forms", "skill://svc/forms/", "skill://svc/forms/ref", "skill://svc/forms/late", "skill://svc/forms/ref/../SKILL.md", "skill://other/forms/SKILL.md", "skill://svc/forms/skill.md"} {
		c.fails(read(uri), fault.UnknownResource)
	}

	wire := c.catalogue("it is announced", func(c *busv1.Catalogue) bool { return len(c.Skills) == 1 })
	same(t, "resource", string(wire.Resources[0].Json), `{"uri":"skill://svc/forms/SKILL.md","name":"forms","description":"Does it.","mimeType":"text/markdown","size":60}`)
	k := wire.Skills[0]
	same(t, "frontmatter", string(k.Frontmatter), `{"name":"forms","description":"Does it.","license":"MIT"}`)
	var files []string
	for _, f := range k.Files {
		files = append(files, fmt.Sprintf("%s %s %d %x", f.Path, f.MimeType, f.Size, f.Digest))
	}
	sum := func(data string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(data))) }
	same(t, "files", strings.Join(files, "\n"), strings.Join([]string{
		"SKILL.md text/markdown 60 " + sum(string(dir["SKILL.md"].Data)), "ref/a b/FORM.md text/markdown 8 " + sum("# Form\r\n"), "ref/dot.bin application/octet-stream 3 " + sum("\x00\x01\xff"),
	}, "\n"))
	if len(wire.Resources) != 1 {
		t.Errorf("listed are %v", wire.Resources)
	}
}

// A new version of a skill replaces the old one in a running service.
func TestSkillsAtRunTime(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	c := run(t, s)
	uri := func() *busv1.Request {
		return &busv1.Request{Method: "resources/read", Name: "skill://svc/forms/SKILL.md"}
	}
	c.fails(uri(), fault.UnknownResource)
	s.AddSkill(skillDir("forms"))
	s.AddSkill(skillDir("other"))
	c.catalogue("both are announced", func(c *busv1.Catalogue) bool { return len(c.Skills) == 2 && len(c.Resources) == 2 })
	c.result(uri())
	s.RemoveSkill("forms")
	s.RemoveSkill("never there")
	c.catalogue("one is gone", func(c *busv1.Catalogue) bool {
		return len(c.Skills) == 1 && c.Skills[0].Name == "other" && len(c.Resources) == 1
	})
	c.fails(uri(), fault.UnknownResource)
	second := skillDir("forms")
	delete(second, "ref/dot.bin")
	s.AddSkill(second)
	s.AddSkill(fstest.MapFS{}) // only logged
	c.catalogue("it is back", func(c *busv1.Catalogue) bool { return len(c.Skills) == 2 && len(c.Skills[0].Files) == 2 })
	c.result(uri())
}

// Start says which skills are malformed, and why; libs/skill has all reasons.
func TestMalformedSkills(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	s.AddSkill(nil)
	s.AddSkill(fstest.MapFS{"README.md": {}})
	s.AddSkill(skillDir("Capitals"))
	s.AddSkill(skillDir("twice"))
	s.AddSkill(skillDir("twice"))
	s.AddResource(mcp.Resource{URI: "skill://svc/taken/SKILL.md", Name: "n"}, readNothing)
	s.AddSkill(skillDir("taken"))
	big := skillDir("big")
	big["film"] = &fstest.MapFile{Data: append([]byte{0}, make([]byte, 13<<20)...)}
	s.AddSkill(big)
	_, err := s.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if err == nil {
		t.Fatal("started")
	}
	for _, want := range []string{
		"skill: the directory of the skill is missing", "skill: there is no SKILL.md", `skill: SKILL.md: name "Capitals"`, "skill twice: added twice",
		"skill taken: there is a resource skill://svc/taken/SKILL.md", "skill: film of big takes",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("not said: %s\n%v", want, err)
		}
	}
}

// A skill's entry in the catalogue is small, even for a large skill.
func TestLargeSkill(t *testing.T) {
	t.Parallel()
	s := quiet(t, "svc")
	for n := range 8 {
		dir := skillDir(fmt.Sprintf("large-%d", n))
		for i := len(dir); i < mcp.MaxSkillFiles; i++ {
			dir[fmt.Sprintf("references/a-chapter-of-the-book/%03d.md", i)] = &fstest.MapFile{Data: []byte("x")}
		}
		s.AddSkill(dir)
	}
	c := run(t, s)
	c.catalogue("eight of the largest are announced", func(c *busv1.Catalogue) bool {
		return len(c.Skills) == 8 && len(c.Skills[7].Files) == mcp.MaxSkillFiles
	})
	c.result(&busv1.Request{Method: "resources/read", Name: "skill://svc/large-7/references/a-chapter-of-the-book/511.md"})
}

// A service's documents often are already skills.
func ExampleService_AddSkill() {
	s := service.New("billing")
	s.AddSkill(fstest.MapFS{ // more often fs.Sub of an embed.FS
		"SKILL.md":             {Data: []byte("---\nname: refunds\ndescription: How to refund a customer.\n---\nRead [the limits](references/LIMITS.md) first.\n")},
		"references/LIMITS.md": {Data: []byte("# Limits\n")},
	})
	fmt.Println(mcp.SkillURI("billing", "refunds", "references/LIMITS.md"))
	// Output: skill://billing/refunds/references/LIMITS.md
}
