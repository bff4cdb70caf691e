package repo

import (
	"io/fs"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// unchanged reports whether a file has the times of its entry. The second time (ctime) changes with every
// change of the file, even if somebody resets the first.
func unchanged(info fs.FileInfo, e *index.Entry) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && info.ModTime().Equal(e.ModifiedAt) && time.Unix(s.Ctim.Unix()).Equal(e.CreatedAt)
}

// stat stores the system's facts about a file in its entry.
func stat(info fs.FileInfo, e *index.Entry) {
	e.ModifiedAt, e.Size = info.ModTime(), uint32(info.Size())
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		e.CreatedAt, e.Dev, e.Inode, e.UID, e.GID = time.Unix(s.Ctim.Unix()), uint32(s.Dev), uint32(s.Ino), s.Uid, s.Gid
	}
}
