//go:build unix

package main

import (
	"os"
	"syscall"
)

// keepOwner gives a file the owner and the group of the regular file at path, if there is one and
// this user may.
func keepOwner(path string, file *os.File) {
	before, err := os.Lstat(path)
	if err != nil || !before.Mode().IsRegular() {
		return
	}
	if s, ok := before.Sys().(*syscall.Stat_t); ok {
		_ = file.Chown(int(s.Uid), int(s.Gid))
	}
}
