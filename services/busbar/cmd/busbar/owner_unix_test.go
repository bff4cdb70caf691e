//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// A file that nats-config replaces stays readable for the program that it was given to.
func TestReplaceKeepsOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	dir := t.TempDir()
	theirs, link := filepath.Join(dir, "users.conf"), filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(theirs, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	const user, group = 12345, 23456
	if err := os.Chown(theirs, user, group); err != nil {
		t.Skip("this root may not give files away: ", err)
	}
	if err := os.Symlink(theirs, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][2]int{theirs: {user, group}, link: {0, os.Getgid()}} {
		if err := replace(path, []byte("after"), 0o600); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		s := info.Sys().(*syscall.Stat_t)
		if got := [2]int{int(s.Uid), int(s.Gid)}; got != want || info.Mode() != 0o600 {
			t.Errorf("%s: owner and group %v, want %v; mode %v", filepath.Base(path), got, want, info.Mode())
		}
	}
}
