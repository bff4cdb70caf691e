//go:build !linux

package repo

import (
	"io/fs"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// unchanged reports whether a file has the time of its entry.
func unchanged(info fs.FileInfo, e *index.Entry) bool { return info.ModTime().Equal(e.ModifiedAt) }

// stat stores the system's facts about a file in its entry.
func stat(info fs.FileInfo, e *index.Entry) {
	e.ModifiedAt, e.Size = info.ModTime(), uint32(info.Size())
}
