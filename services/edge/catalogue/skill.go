package catalogue

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Skill returns the entry of the skill whose SKILL.md has a URI, as skills/list shows it.
func (s *Snapshot) Skill(uri string) (entry []byte, ok bool) {
	items := s.lists[Skills].items
	i, ok := slices.BinarySearchFunc(items, uri, byName)
	if !ok {
		return nil, false
	}
	return items[i].json, true
}

// Directory returns the members of a list of a directory's children, from a cursor on. ok is
// false if no directory has that URI.
func (s *Snapshot) Directory(uri string, cursor []byte) (members []byte, ok bool, err error) {
	l, ok := s.directories[uri]
	if !ok {
		return nil, false, nil
	}
	children := &l.children
	if s.view != nil {
		shown := children.only(func(it item) bool { return s.shows(Resources, it.name, l.service) })
		if len(shown.items) == 0 {
			return nil, false, nil
		}
		children = &shown
	}
	from, err := children.from(cursor)
	if err != nil {
		return nil, true, err
	}
	return children.page(from, pageItems, pageBytes).Append(nil), true, nil
}

// directory is a directory of a skill.
type directory struct {
	service  string
	children list
}

// skill is what the edge knows of one skill.
type skill struct {
	uri   string
	entry []byte
	// files are the URIs of its files.
	files map[string]bool
	// directories are the children of its directories, by URI.
	directories map[string][]item
}

// skillFile is a file in the manifest of an entry.
type skillFile struct {
	URI    string `json:"uri"`
	Digest string `json:"digest"`
	Size   uint64 `json:"size"`
}

// newSkill makes a skill from a service's announcement, which is not trusted: services need not
// be written with libs/service.
func newSkill(service string, k *busv1.Skill) (*skill, error) {
	if err := mcp.CheckSkillName(k.Name); err != nil {
		return nil, err
	}
	var about struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	if err := json.Unmarshal(k.Frontmatter, &about); err != nil {
		return nil, fmt.Errorf("its frontmatter is not a JSON object with name and description: %v", err)
	}
	if about.Name != k.Name || about.Description == "" {
		return nil, errors.New("its frontmatter has another name, or no description")
	}
	if len(k.Files) > mcp.MaxSkillFiles {
		return nil, fmt.Errorf("it has %d files; the limit is %d", len(k.Files), mcp.MaxSkillFiles)
	}
	at := func(path string) string { return mcp.SkillURI(service, k.Name, path) }
	s := &skill{uri: at(mcp.SkillFile), files: map[string]bool{}, directories: map[string][]item{at("."): nil}}
	manifest := make([]skillFile, 0, len(k.Files))
	var total uint64
	for _, f := range k.Files {
		if err := mcp.CheckSkillPath(f.Path); err != nil {
			return nil, fmt.Errorf("file %.80q: %v", f.Path, err)
		}
		uri := at(f.Path)
		if s.files[uri] {
			return nil, fmt.Errorf("file %q appears twice", f.Path)
		}
		if len(f.Digest) != sha256.Size {
			return nil, fmt.Errorf("file %q has no digest", f.Path)
		}
		if total += min(f.Size, mcp.MaxSkillBytes+1); total > mcp.MaxSkillBytes {
			return nil, fmt.Errorf("its files are more than %d MiB together", mcp.MaxSkillBytes>>20)
		}
		size := int64(f.Size)
		child := mcp.Resource{URI: uri, Name: path.Base(f.Path), MIMEType: f.MimeType, Size: &size}
		if uri == s.uri {
			child.Name, child.Description = about.Name, about.Description
		}
		if err := s.place(at, f.Path, child); err != nil {
			return nil, err
		}
		s.files[uri] = true
		manifest = append(manifest, skillFile{uri, fmt.Sprintf("sha256:%x", f.Digest), f.Size})
	}
	if !s.files[s.uri] {
		return nil, fmt.Errorf("it has no %s", mcp.SkillFile)
	}
	for uri := range s.directories {
		if s.files[uri] {
			return nil, fmt.Errorf("%s is a file and a directory", uri)
		}
	}
	slices.SortFunc(manifest, func(a, b skillFile) int { return strings.Compare(a.URI, b.URI) })
	var err error
	s.entry, err = json.Marshal(struct {
		URI         string         `json:"uri"`
		Frontmatter jsontext.Value `json:"frontmatter"`
		Resources   []skillFile    `json:"resources"`
	}{s.uri, k.Frontmatter, manifest})
	return s, err
}

// place puts a file or a directory into its parent directory, and that into its own parent.
func (s *skill) place(at func(path string) string, name string, child mcp.Resource) error {
	above := path.Dir(name)
	parent := at(above)
	if _, known := s.directories[parent]; !known {
		s.directories[parent] = nil
		if err := s.place(at, above, mcp.Resource{URI: parent, Name: path.Base(above), MIMEType: mcp.TypeDirectory}); err != nil {
			return err
		}
	}
	entry, err := json.Marshal(child)
	s.directories[parent] = append(s.directories[parent], item{child.URI, entry})
	return err
}

// addSkills adds the skills of a service. If the name of a skill belongs to another service, its
// files can still be read, as files of no skill.
func (b *builder) addSkills(service string, skills []*busv1.Skill, at func(Name, string) Target) {
	for _, k := range skills {
		n := Name{SkillName, k.Name}
		made, err := newSkill(service, k)
		if err == nil && b.files[made.uri].Service == service {
			err = errors.New("it appears twice")
		}
		if err != nil {
			b.leaveOut(service, n, err)
			continue
		}
		if ok, whose := b.owners.may(service, n); !ok {
			b.conflict(Conflict{Name: n, Service: service, Owner: whose, Ungranted: true})
			continue
		}
		target := at(n, entryDigest(service, k))
		for uri := range made.files {
			b.files[uri] = target
		}
		for uri, children := range made.directories {
			b.directories[uri] = directory{service, newList("resources", uri, children)}
		}
		if b.mine(service, n) {
			b.items[Skills] = append(b.items[Skills], item{made.uri, made.entry})
		}
	}
}
