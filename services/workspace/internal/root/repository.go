package root

import (
	"path"
	"strings"
)

// Repository is the directory that git takes for a repository, whatever its name is,
// and that the place is or is in; empty if there is none. A directory that would
// become one if something were made at the place is one.
func Repository(p Place) string {
	next := ""
	for at := p.Full(); ; at = path.Dir(at) {
		if p.isRepository(at, next) {
			return Place{Root: p.Root, Path: at, At: "."}.String()
		}
		if at == "." {
			return ""
		}
		next = path.Base(at)
	}
}

// isRepository says whether a directory of the root has what git looks for, counting
// the name that is about to be in it.
func (r *Root) isRepository(dir, next string) bool {
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if strings.EqualFold(name, next) {
			continue
		}
		if _, err := r.FS.Lstat(path.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
