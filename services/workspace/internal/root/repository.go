package root

import (
	"path"
	"strings"
)

// Repository returns the directory that contains the place and that git treats as a repository,
// whatever its name; empty for none. A directory that would become one if the place were created
// also counts.
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

// isRepository reports whether a directory of the root has the entries that git looks for, including next,
// which is about to be created.
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
