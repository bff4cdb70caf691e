// Package skill reads and checks Agent Skills (https://agentskills.io/specification):
// directories with a SKILL.md that tells a model how to do something, and the files needed for
// that. Start at Read.
package skill

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Skill is one skill at the time of reading.
type Skill struct {
	Name        string
	Description string
	// Frontmatter is the frontmatter of SKILL.md as a JSON object: all of it, in the
	// author's order.
	Frontmatter jsontext.Value
	// Files are all files of the skill, including SKILL.md, ordered by path.
	Files []File
}

// File is one file of a skill.
type File struct {
	// Path is relative to the skill's directory, with slashes.
	Path     string
	MIMEType string
	// Text is set if the content is UTF-8 text.
	Text bool
	Data []byte
}

// Read reads the skill whose SKILL.md is at the root of dir, within the limits of libs/mcp.
// Everything below dir belongs to the skill, and must be a regular file: a link could lead
// out of it.
func Read(dir fs.FS) (*Skill, error) {
	if dir == nil {
		return nil, errors.New("the directory of the skill is missing")
	}
	s := &Skill{}
	left := mcp.MaxSkillBytes
	err := fs.WalkDir(dir, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if err := mcp.CheckSkillPath(path); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if d.IsDir() {
			return nil
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", path)
		}
		if len(s.Files) == mcp.MaxSkillFiles {
			return fmt.Errorf("it has more than %d files", mcp.MaxSkillFiles)
		}
		data, err := read(dir, path, left)
		if err != nil {
			return err
		}
		left -= len(data)
		f := File{Path: path, Data: data}
		f.MIMEType, f.Text = mimeType(path, data)
		s.Files = append(s.Files, f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(s.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	i := slices.IndexFunc(s.Files, func(f File) bool { return f.Path == mcp.SkillFile })
	if i < 0 {
		return nil, fmt.Errorf("there is no %s at its root", mcp.SkillFile)
	}
	if err := s.describe(s.Files[i].Data); err != nil {
		return nil, fmt.Errorf("%s: %w", mcp.SkillFile, err)
	}
	return s, nil
}

// read reads a file of at most limit bytes.
func read(dir fs.FS, path string, limit int) ([]byte, error) {
	f, err := dir.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(data) > limit {
		return nil, fmt.Errorf("its files are larger than %d MiB together", mcp.MaxSkillBytes>>20)
	}
	return data, nil
}

// maxDescription is the longest description, in characters (Agent Skills
// specification).
const maxDescription = 1024

func (s *Skill) describe(file []byte) error {
	object, texts, err := frontmatter(file)
	if err != nil {
		return err
	}
	name, ok := texts["name"]
	if !ok {
		return errors.New("its frontmatter has no name; add one as text")
	}
	if err := mcp.CheckSkillName(name); err != nil {
		return err
	}
	description, ok := texts["description"]
	if !ok || strings.TrimSpace(description) == "" {
		return errors.New("its frontmatter has no description; add one as text")
	}
	if n := utf8.RuneCountInString(description); n > maxDescription {
		return fmt.Errorf("its description has %d characters; the limit is %d", n, maxDescription)
	}
	s.Name, s.Description, s.Frontmatter = name, description, object
	return nil
}
