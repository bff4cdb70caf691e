package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
)

// ExtensionSkills is the extension by which servers offer Agent Skills
// (SEP-2640). A skill is a directory of files, read as resources.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// SkillFile is the file at the root of every skill that says what it is for.
const SkillFile = "SKILL.md"

// TypeDirectory is the MIME type of a resource that is a directory.
const TypeDirectory = "inode/directory"

// Limits of a skill. Those of files and bytes are the extension's, which every
// host accepts; those of a path are Busbar's.
const (
	MaxSkillFiles = 512
	// MaxSkillBytes is for all files together.
	MaxSkillBytes = 16 << 20
	// MaxSkillPath is the length of a file's path within the skill, in bytes.
	MaxSkillPath = 256
	// MaxSkillDepth is how many names a path may have.
	MaxSkillDepth = 16
)

// SkillURI is the URI of a file of a skill, of one of its directories, or of
// the skill's own directory for ".". The service comes first, so that two
// services never have one URI.
func SkillURI(service, skill, path string) string {
	uri := "skill://" + service + "/" + skill
	if path == "." {
		return uri
	}
	for name := range strings.SplitSeq(path, "/") {
		uri += "/" + url.PathEscape(name)
	}
	return uri
}

// CheckSkillName refuses a name that the Agent Skills specification does not
// allow: it is 1 to 64 of a-z, 0-9 and -, with a hyphen only between others.
func CheckSkillName(name string) error {
	ok := name != "" && len(name) <= 64 && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-") && !strings.Contains(name, "--")
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("name %.80q is not 1 to 64 of a-z, 0-9 and -, with hyphens only between others", name)
	}
	return nil
}

// CheckSkillPath refuses a path that no file of a skill can have.
func CheckSkillPath(path string) error {
	switch {
	case !fs.ValidPath(path) || path == ".":
		return errors.New("not a path below the skill's directory, in UTF-8 and with slashes")
	case len(path) > MaxSkillPath:
		return fmt.Errorf("a path has at most %d bytes", MaxSkillPath)
	case strings.Count(path, "/") >= MaxSkillDepth:
		return fmt.Errorf("a path has at most %d names", MaxSkillDepth)
	}
	return nil
}
