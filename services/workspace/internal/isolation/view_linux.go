package isolation

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	hostname = "ci"
	homeDir  = "/tmp/home"
	before   = "/.before"
)

// readOnly and writable are the mount attributes of the machine's directories. Neither allows set-user-id
// files or devices.
var (
	readOnly = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	writable = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	device   = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC}
)

// devices lists the devices that commands have.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// view builds a file system from nothing and leaves the machine's, as Bubblewrap does.
func (p plan) view() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("create a mount namespace: %w", err)
	}
	const base = "/tmp"
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m"); err != nil {
		return fmt.Errorf("mount a file system in memory: %w", err)
	}
	if err := os.Mkdir(base+before, 0o700); err != nil {
		return err
	}
	if err := unix.PivotRoot(base, base+before); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	for _, s := range p.Shown {
		if err := show(before+s.From, s.To, readOnly); err != nil {
			return err
		}
	}
	for _, m := range []struct {
		at, kind string
		flags    uintptr
		options  string
	}{
		{"/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, fmt.Sprintf("mode=755,size=%d", p.Disk)},
		{"/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k"},
		{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, m.flags, m.options); err != nil {
			return fmt.Errorf("%s: %w", m.at, err)
		}
	}
	for _, name := range devices {
		if err := show(before+"/dev/"+name, "/dev/"+name, device); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, "/dev/"+name); err != nil {
			return err
		}
	}
	if err := show(before+p.Dir, p.Inside, writable); err != nil {
		return err
	}
	if err := unix.Unmount(before, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the machine's files: %w", err)
	}
	if err := os.Remove(before); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(hostname)); err != nil {
		return err
	}
	return loopback()
}

// show mounts a file or directory at another path, with all mounts below it.
func show(from, to string, how unix.MountAttr) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		err = touch(to, "")
	}
	if err != nil {
		return err
	}
	source, err := unix.Open(from, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "show", Path: to, Err: err}
	}
	defer func() { _ = unix.Close(source) }()
	target, err := unix.Open(to, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "show", Path: to, Err: err}
	}
	defer func() { _ = unix.Close(target) }()
	return mountOn(source, target, to, how)
}

// mountOn mounts the file of one descriptor over the file of another.
func mountOn(source, target int, name string, how unix.MountAttr) error {
	tree, err := unix.OpenTree(source, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return &fs.PathError{Op: "show", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(tree) }()
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &how); err != nil {
		return &fs.PathError{Op: "protect", Path: name, Err: err}
	}
	if err := unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return &fs.PathError{Op: "mount", Path: name, Err: err}
	}
	return nil
}

// masked lists files of /proc that ignore namespaces and reveal facts about the machine: keyrings of the
// service's user, names and state of the kernel.
var masked = []string{"/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/kcore", "/proc/modules", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats"}

// mask makes a file read as empty, if this kernel has the file.
func mask(at string) error {
	info, err := os.Stat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.IsDir() {
		err = unix.ENOTSUP
	}
	if err != nil {
		return &fs.PathError{Op: "mask", Path: at, Err: err}
	}
	source, err := unix.Open("/dev/null", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "mask", Path: at, Err: err}
	}
	defer func() { _ = unix.Close(source) }()
	target, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "mask", Path: at, Err: err}
	}
	defer func() { _ = unix.Close(target) }()
	return mountOn(source, target, at, unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// furnish completes the view, whichever way made it: it adds the files that programs expect, and makes
// everything read-only that is not the command's.
func (p plan) furnish() error {
	for _, dir := range []string{homeDir, "/tmp/shm", "/dev/shm", "/etc"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := show("/tmp/shm", "/dev/shm", writable); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"/etc/hosts":         "127.0.0.1 localhost " + hostname + "\n::1 localhost\n",
		"/etc/passwd":        "ci:x:1000:1000::" + homeDir + ":/bin/sh\n",
		"/etc/group":         "ci:x:1000:\n",
		"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	} {
		if err := touch(name, text); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.EROFS) {
			return err
		}
	}
	if err := os.Chmod("/etc", 0o755); err != nil && !errors.Is(err, unix.EROFS) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if err := p.guard(); err != nil {
		return err
	}
	for _, at := range masked {
		if err := mask(at); err != nil {
			return err
		}
	}
	// Files below /proc and /sys would let a process with root's user id change the machine.
	for _, at := range []string{"/", "/proc"} {
		if err := unix.MountSetattr(unix.AT_FDCWD, at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return &fs.PathError{Op: "protect", Path: at, Err: err}
		}
	}
	return nil
}

// guard makes the guarded paths read-only. It follows no link to one. A mount point cannot be moved, so
// the directories on the way become mount points as well: if they were moved out of sight, the next run
// would not find and guard them.
func (p plan) guard() error {
	top, err := unix.Open(p.Inside, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "guard", Path: p.Inside, Err: err}
	}
	defer func() { _ = unix.Close(top) }()
	held := map[string]bool{}
	hold := func(rel string, how unix.MountAttr) error {
		if held[rel] {
			return nil
		}
		held[rel] = true
		fd, err := unix.Openat2(top, rel, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
		if err == nil {
			err = mountOn(fd, fd, rel, how)
			_ = unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("guard %s: %w", rel, err)
		}
		return nil
	}
	// In this order each path comes after the one that contains it.
	for _, rel := range slices.Sorted(slices.Values(p.Guarded)) {
		for i, c := range rel {
			if c == '/' {
				if err := hold(rel[:i], writable); err != nil {
					return err
				}
			}
		}
		if err := hold(rel, readOnly); err != nil {
			return err
		}
	}
	return nil
}

func touch(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// loopback lets processes of the command talk to each other over 127.0.0.1, their only address.
func loopback() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}
