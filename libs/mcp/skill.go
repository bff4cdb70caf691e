package mcp

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
)

// ExtensionSkills is the extension for servers that offer Agent Skills (SEP-2640). A skill
// is a directory of files, read as resources.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// SkillFile is the file at the root of every skill that describes it.
const SkillFile = "SKILL.md"

// TypeDirectory is the MIME type of a resource that is a directory.
const TypeDirectory = "inode/directory"

// Limits of a skill. The limits of files and bytes come from the extension, and every host accepts
// them; the limits of a path are Busbar's.
const (
	//limit:service files of a skill | the skill is left out
	MaxSkillFiles = 512
	// MaxSkillBytes is the total size of all files, in bytes.
	//limit:service bytes of all files of a skill | the skill is left out
	MaxSkillBytes = 16 << 20
	// MaxSkillPath is the length of a file's path within the skill, in bytes.
	MaxSkillPath = 256
	// MaxSkillDepth is the largest number of names in a path.
	MaxSkillDepth = 16
)

// SkillURI returns the URI of a file of a skill, of one of its directories, or, for ".",
// of the skill's own directory. The service comes first, so that two services never share
// a URI.
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

// CheckSkillName checks a name by the Agent Skills specification: 1 to 64 characters of
// a-z, 0-9 and -, with a hyphen only between others.
func CheckSkillName(name string) error {
	ok := name != "" && len(name) <= 64 && !strings.HasPrefix(name, "-") && !strings.HasSuffix(name, "-") && !strings.Contains(name, "--")
	for _, c := range []byte(name) {
		ok = ok && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("name %.80q is not valid; use 1 to 64 of a-z, 0-9 and -, with hyphens only between others", name)
	}
	return nil
}

// CheckSkillPath checks the path of a file of a skill.
func CheckSkillPath(path string) error {
	switch {
	case !fs.ValidPath(path) || path == ".":
		return errors.New("not a path below the skill's directory, in UTF-8 and with slashes")
	case len(path) > MaxSkillPath:
		return fmt.Errorf("the path is longer than %d bytes", MaxSkillPath)
	case strings.Count(path, "/") >= MaxSkillDepth:
		return fmt.Errorf("the path has more than %d names", MaxSkillDepth)
	}
	return nil
}
