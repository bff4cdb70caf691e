package isolation_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// attempt is an attempt to get out; no error means that it succeeded.
type attempt struct {
	// plainly is the outcome without isolation: it works, or it depends on the kernel and on the
	// user of the test. Harmful attempts are never made there.
	plainly outcome
	do      func() error
}

type outcome int

const (
	works outcome = iota
	depends
	harms
)

func fact(name string) string { return os.Getenv("ATTEMPT_" + name) }

func pid() int { n, _ := strconv.Atoi(fact("PID")); return n }

// reads succeeds if a file has the secret.
func reads(name string) error {
	data, err := os.ReadFile(name)
	if err == nil && !strings.Contains(string(data), fact("SECRET_BEGINS")+"-secret") {
		err = fmt.Errorf("%d bytes without the secret", len(data))
	}
	return err
}

// tells succeeds if one of the files is not empty.
func tells(names ...string) error {
	for _, name := range names {
		if data, err := os.ReadFile(name); err == nil && len(data) > 0 {
			return nil
		}
	}
	return errors.New("all are empty")
}

func opens(flag int, names ...string) (err error) {
	for _, name := range names {
		f, failed := os.OpenFile(name, flag, 0)
		if failed == nil {
			return f.Close()
		}
		err = errors.Join(err, failed)
	}
	return err
}

func call(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, e := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != 0 {
		return e
	}
	return nil
}

func dials(network, address string) error {
	c, err := net.DialTimeout(network, address, bustest.Promptly)
	if err == nil {
		_ = c.Close()
	}
	return err
}

func socket(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

func linkTo(target string) error {
	_ = os.Remove("link")
	if err := os.Symlink(target, "link"); err != nil {
		return err
	}
	return reads("link")
}

// elf32 is a program of the machine's other architecture: exit(0).
var elf32 = append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00\x01\x00\x00\x00\x54\x80\x04\x08\x34\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x34\x00\x20\x00\x01\x00\x00\x00\x00\x00\x00\x00"+
	"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x80\x04\x08\x00\x80\x04\x08\x5d\x00\x00\x00\x5d\x00\x00\x00\x05\x00\x00\x00\x00\x10\x00\x00"), 0x31, 0xdb, 0xb8, 1, 0, 0, 0, 0xcd, 0x80)

var attempts = map[string]attempt{
	// The network.
	"tcp to the machine":             {works, func() error { return dials("tcp", fact("TCP")) }},
	"unix socket of the machine":     {works, func() error { return dials("unix", fact("OUTSIDE")+"/socket") }},
	"abstract socket of the machine": {works, func() error { return dials("unix", "@"+fact("ABSTRACT")) }},
	"vsock":                          {depends, func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM) }},
	"packets":                        {depends, func() error { return socket(unix.AF_PACKET, unix.SOCK_RAW) }},
	"raw IP":                         {depends, func() error { return socket(unix.AF_INET, unix.SOCK_RAW) }},
	"crypto sockets":                 {depends, func() error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET) }},
	"interfaces": {depends, func() error {
		all, err := net.Interfaces()
		if err == nil && len(all) < 2 {
			err = errors.New("there is only loopback")
		}
		return err
	}},
	// Files.
	"read outside":             {works, func() error { return reads(fact("OUTSIDE") + "/secret") }},
	"write outside":            {works, func() error { return os.WriteFile(fact("OUTSIDE")+"/written", nil, 0o600) }},
	"another root":             {works, func() error { return reads(fact("OTHER") + "/secret") }},
	"data of the service":      {works, func() error { return reads(fact("DATA") + "/secret") }},
	"symbolic link out":        {works, func() error { return linkTo(fact("OUTSIDE") + "/secret") }},
	"link through /proc":       {works, func() error { return linkTo("/proc/" + fact("PID") + "/root" + fact("OUTSIDE") + "/secret") }},
	"hard link out":            {works, func() error { _ = os.Remove("hard"); return os.Link(fact("OUTSIDE")+"/secret", "hard") }},
	"above the root":           {works, func() error { return reads("../" + fact("BESIDE") + "/secret") }},
	"passwords of the machine": {depends, func() error { return opens(os.O_RDONLY, "/etc/shadow") }},
	"system programs":          {depends, func() error { return os.WriteFile("/usr/bin/"+fact("ABSTRACT"), nil, 0o755) }},
	"what may run":             {works, func() error { return os.WriteFile(".busbar/workspace.yaml", []byte("ci:\n"), 0o644) }},
	"what may run, beside it":  {works, func() error { return os.WriteFile(".busbar/other", nil, 0o644) }},
	"what may run, moved": {works, func() error {
		if err := os.Rename(".busbar", "moved"); err != nil {
			return err
		}
		return os.Rename("moved", ".busbar")
	}},
	"what may run, linked":          {works, func() error { _ = os.Remove("linked"); return os.Link(".busbar/workspace.yaml", "linked") }},
	"what may run, bits":            {works, func() error { return os.Chmod(".busbar/workspace.yaml", 0o600) }},
	"hooks of git":                  {works, func() error { return os.WriteFile(".git/pre-commit", nil, 0o755) }},
	"configuration of git":          {works, func() error { return os.WriteFile("sub/.git/config", nil, 0o644) }},
	"git, moved":                    {works, func() error { return errors.Join(os.Rename(".git", "g"), os.Rename("g", ".git")) }},
	"git, moved with its directory": {works, func() error { return errors.Join(os.Rename("sub", "s"), os.Rename("s", "sub")) }},
	// Over it another run could receive this run's files without their guards, once this run is
	// over.
	"a meeting of two runs": {works, func() error {
		l, err := net.Listen("unix", "meeting")
		if err == nil {
			err = l.Close()
		}
		return err
	}},
	"git, exchanged": {depends, func() error {
		_ = os.Mkdir("e", 0o755)
		return unix.Renameat2(unix.AT_FDCWD, ".git", unix.AT_FDCWD, "e", unix.RENAME_EXCHANGE)
	}},
	"devices": {depends, func() error {
		return opens(os.O_RDONLY, "/dev/kmsg", "/dev/mem", "/dev/vda", "/dev/sda", "/dev/kvm", "/dev/fuse", "/dev/loop-control")
	}},
	"a device of one's own": {harms, func() error { return unix.Mknod("device", unix.S_IFBLK|0o600, 1<<8) }},
	"settings of the kernel": {depends, func() error {
		return opens(os.O_WRONLY, "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger")
	}},
	"sysfs": {works, func() error { return opens(os.O_RDONLY, "/sys/kernel") }},
	// Other processes.
	"sees the service":           {works, func() error { _, err := os.Stat("/proc/" + fact("PID")); return err }},
	"signals to the service":     {works, func() error { return unix.Kill(pid(), 0) }},
	"environment of the service": {works, func() error { return opens(os.O_RDONLY, "/proc/"+fact("PID")+"/environ") }},
	"environment of one's own":   {works, func() error { return reads("/proc/self/environ") }},
	"files of the service":       {works, func() error { return reads("/proc/" + fact("PID") + "/fd/" + fact("FD")) }},
	"a file left open":           {works, func() error { return reads("/proc/self/fd/" + fact("FD")) }},
	"keyrings of the service":    {depends, func() error { return tells("/proc/keys", "/proc/key-users") }},
	"names of the kernel":        {depends, func() error { return tells("/proc/kallsyms", "/proc/modules", "/proc/timer_list") }},
	"memory of the service":      {depends, func() error { return opens(os.O_RDWR, "/proc/"+fact("PID")+"/mem") }},
	"memory of the first":        {depends, func() error { return opens(os.O_RDWR, "/proc/1/mem") }},
	"root of the first":          {depends, func() error { return opens(os.O_RDONLY, "/proc/1/root/etc") }},
	"trace the service":          {depends, func() error { return call(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid())) }},
	"be traced":                  {works, func() error { return call(unix.SYS_PTRACE, unix.PTRACE_TRACEME) }},
	"read another's memory": {depends, func() error {
		var b [8]byte
		local := unix.Iovec{Base: &b[0], Len: 8}
		remote := unix.RemoteIovec{Base: uintptr(unsafe.Pointer(&b)), Len: 8}
		return call(unix.SYS_PROCESS_VM_READV, uintptr(os.Getpid()), uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
	}},
	// Rights.
	"be root": {depends, func() error { return unix.Setresuid(0, 0, 0) }},
	"a namespace": {depends, func() error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	}},
	"unshare mounts":    {depends, func() error { return unix.Unshare(unix.CLONE_NEWNS) }},
	"mount":             {harms, func() error { return unix.Mount("tmpfs", "sub", "tmpfs", 0, "") }},
	"unmount a guard":   {harms, func() error { return unix.Unmount(".busbar", unix.MNT_DETACH) }},
	"write again":       {harms, func() error { return unix.Mount("", ".busbar", "", unix.MS_REMOUNT|unix.MS_BIND, "") }},
	"another root of /": {depends, func() error { return unix.Chroot("sub") }},
	"files by number": {depends, func() error {
		_, err := unix.OpenByHandleAt(unix.AT_FDCWD, unix.NewFileHandle(1, make([]byte, 8)), 0)
		return isRefused(err)
	}},
	"more files":    {depends, func() error { return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 19, Max: 1 << 20}) }},
	"more priority": {depends, func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }},
	"dump core":     {depends, func() error { return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20}) }},
	// System calls that reach far into the kernel.
	"io_uring":      {depends, func() error { var p [120]byte; return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p))) }},
	"keys":          {depends, func() error { return call(unix.SYS_KEYCTL, 0, ^uintptr(2), 1) }}, // the session's keyring
	"userfaultfd":   {depends, func() error { return call(unix.SYS_USERFAULTFD, 1) }},
	"bpf":           {depends, func() error { return isRefused(call(unix.SYS_BPF, 0, 0, 0)) }},
	"perf":          {depends, func() error { return isRefused(call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0)) }},
	"hidden memory": {works, func() error { _, err := unix.MemfdCreate("x", 0); return err }},
	"shared memory of System V": {works, func() error {
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 4096, unix.IPC_CREAT|0o600)
		if err == nil {
			_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		}
		return err
	}},
	"type into a terminal": {depends, func() error {
		f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		c := byte('x')
		err = call(unix.SYS_IOCTL, f.Fd(), 1<<32|unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		if errors.Is(err, unix.EPERM) {
			return err
		}
		return call(unix.SYS_IOCTL, f.Fd(), unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
	}},
	"another architecture": {depends, func() error {
		if err := os.WriteFile("elf32", elf32, 0o755); err != nil {
			return err
		}
		return exec.Command("./elf32").Run()
	}},
}

// alone are the attempts that change their process if they succeed.
var alone = []string{
	"be root", "be traced", "dump core", "keys", "more files", "more priority", "mount", "another root of /", "trace the service", "unmount a guard", "unshare mounts", "write again",
}

// isRefused turns every error into a success, except the error of a system call that the filter
// refuses.
func isRefused(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
		return err
	}
	return nil
}
