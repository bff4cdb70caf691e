package repo

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// unchanged says whether a file has the times of its entry. The second time changes with
// everything that is done to the file, also where somebody sets the first one back.
func unchanged(info fs.FileInfo, e *index.Entry) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.ModTime().Equal(e.ModifiedAt) && time.Unix(s.Ctim.Unix()).Equal(e.CreatedAt)
}

// stat puts what the system says of a file into its entry.
func stat(info fs.FileInfo, e *index.Entry) {
	e.ModifiedAt, e.Size = info.ModTime(), uint32(info.Size())
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		e.CreatedAt, e.Dev, e.Inode, e.UID, e.GID = time.Unix(s.Ctim.Unix()), uint32(s.Dev), uint32(s.Ino), s.Uid, s.Gid
	}
}
