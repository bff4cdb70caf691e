package service

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/skill"
)

type servedSkill struct {
	wire *busv1.Skill
	// main is the entry of SKILL.md in the list of resources; the other files can be read but are
	// not listed.
	main *busv1.Resource
	// files by URI.
	files map[string]mcp.ResourceContents
}

// AddSkill adds an Agent Skill (SEP-2640): a directory with a SKILL.md at its root, for example
// fs.Sub of an embed.FS, or os.DirFS. It is read at once and kept in memory; to serve a change,
// remove the skill and add it again. The name of the skill comes from its SKILL.md, and its files
// are the resources skill://<service>/<name>/<path>.
//
// A skill has at most 512 files of 16 MiB together, of which each has to fit a result: 12 MiB for a
// binary file. Each file's entry, not its contents, counts towards the catalogue of the service:
// about 100 bytes each.
func (s *Service) AddSkill(dir fs.FS) {
	what := "skill"
	k, err := s.readSkill(dir)
	if err == nil {
		what += " " + k.wire.Name
	}
	s.register(what, func() error {
		switch {
		case err != nil:
			return err
		case s.skills[k.wire.Name] != nil:
			return errors.New("added twice")
		case s.resources[k.main.Uri] != nil:
			return fmt.Errorf("there is a resource %s", k.main.Uri)
		}
		s.skills[k.wire.Name] = k
		return nil
	})
}

// RemoveSkill removes a skill.
func (s *Service) RemoveSkill(name string) {
	s.register("skill "+name, func() error {
		delete(s.skills, name)
		return nil
	})
}

func (s *Service) readSkill(dir fs.FS) (*servedSkill, error) {
	read, err := skill.Read(dir)
	if err != nil {
		return nil, err
	}
	k := &servedSkill{
		wire:  &busv1.Skill{Name: read.Name, Frontmatter: read.Frontmatter},
		files: map[string]mcp.ResourceContents{},
	}
	for _, f := range read.Files {
		c := mcp.ResourceContents{URI: mcp.SkillURI(s.name, read.Name, f.Path), MIMEType: f.MIMEType, Blob: f.Data}
		if f.Text {
			c.Text, c.Blob = string(f.Data), nil
		}
		result, err := contentsResult(c)
		if err != nil {
			return nil, err
		}
		if n := len(result); n > bus.MaxResult {
			return nil, fmt.Errorf("%s of %s takes %d bytes as a result; the limit is %d", f.Path, read.Name, n, bus.MaxResult)
		}
		k.files[c.URI] = c
		digest := sha256.Sum256(f.Data)
		k.wire.Files = append(k.wire.Files, &busv1.SkillFile{
			Path: f.Path, MimeType: f.MIMEType, Size: uint64(len(f.Data)), Digest: digest[:],
		})
		if f.Path == mcp.SkillFile {
			size := int64(len(f.Data))
			entry, err := marshal(mcp.Resource{URI: c.URI, Name: read.Name, Description: read.Description, MIMEType: f.MIMEType, Size: &size})
			if err != nil {
				return nil, err
			}
			k.main = &busv1.Resource{Uri: c.URI, Json: entry}
		}
	}
	return k, nil
}

// fileReaderLocked returns the function that reads a file of a skill; nil for another URI.
func (s *Service) fileReaderLocked(uri string) ReadFunc {
	for _, k := range s.skills {
		if c, ok := k.files[uri]; ok {
			return func(context.Context, *Call, string, map[string]string) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{c}, nil
			}
		}
	}
	return nil
}
