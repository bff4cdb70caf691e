package isolation

import (
	"errors"
	"fmt"
	"math"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"github.com/elastic/go-seccomp-bpf/arch"
	"github.com/landlock-lsm/go-landlock/landlock"
	llsys "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// limit sets the limits of each process. Children of this thread inherit them.
func (p plan) limit() error {
	cpu := uint64(math.Ceil(p.CPU.Seconds()))
	// Normally the watch notices too many processes first, and reports it. This limit is for when
	// the watch is too late; it leaves room for threads of the launcher.
	processes := 2*uint64(p.Processes) + 64
	for resource, most := range map[int]uint64{
		unix.RLIMIT_CPU: cpu, unix.RLIMIT_NPROC: processes, unix.RLIMIT_FSIZE: uint64(p.Disk),
		unix.RLIMIT_NOFILE: 4096, unix.RLIMIT_CORE: 0, unix.RLIMIT_MEMLOCK: 1 << 20, unix.RLIMIT_MSGQUEUE: 64 << 10,
	} {
		if p.Way == None && resource == unix.RLIMIT_NPROC {
			continue // it would count all processes of this user, not only the command's
		}
		var now unix.Rlimit
		if err := unix.Getrlimit(resource, &now); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
		most = min(most, now.Max)
		next := unix.Rlimit{Cur: most, Max: most}
		if resource == unix.RLIMIT_CPU && most < now.Max {
			next.Max++ // only the lower one has a signal with a name, SIGXCPU
		}
		if err := unix.Setrlimit(resource, &next); err != nil {
			return fmt.Errorf("limits: %w", err)
		}
	}
	return giveWay()
}

// giveWay lowers the priority, because other calls come first. A process with a lower priority keeps it:
// raising it would need a right of its own.
func giveWay() error {
	const niceness = 10
	// The system call returns 20 minus the niceness (getpriority(2)).
	if now, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && 20-now >= niceness {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, niceness); err != nil {
		return fmt.Errorf("priority: %w", err)
	}
	return nil
}

// confine gives up every right, for good.
func (p plan) confine() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	if err := p.landlock(); err != nil {
		return fmt.Errorf("landlock: %w", err)
	}
	for c := uintptr(0); c < 64; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			break // past the last one
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	var none [2]unix.CapUserData
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	// The command must not read the files of this process in /proc.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if err := filter(); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// landlock repeats for files what the mounts already say. It is required in the namespaces that this
// package makes itself; newer kernels support more of it.
func (p plan) landlock() error {
	if v, err := llsys.LandlockGetABIVersion(); err != nil || v < 2 {
		if p.Way == Namespaces {
			return errors.New("this kernel has no Landlock, or an old one; use Linux 5.19 or newer")
		}
		return nil
	}
	var files []string
	for _, name := range devices {
		files = append(files, "/dev/"+name)
	}
	// Sockets are not allowed in the directory. Over one, another run could receive this run's files without
	// the mounts that guard them, once this run is over.
	const work = llsys.AccessFSExecute | llsys.AccessFSReadFile | llsys.AccessFSReadDir | llsys.AccessFSWriteFile | llsys.AccessFSTruncate | llsys.AccessFSRefer |
		llsys.AccessFSRemoveDir | llsys.AccessFSRemoveFile | llsys.AccessFSMakeDir | llsys.AccessFSMakeReg | llsys.AccessFSMakeSym | llsys.AccessFSMakeFifo
	known := landlock.V8.BestEffort()
	if err := known.RestrictPaths(
		landlock.RODirs("/"),
		landlock.RWDirs("/tmp", "/dev/shm").WithRefer(),
		landlock.PathAccess(work, p.Inside),
		landlock.RWFiles(files...),
		landlock.RWDirs("/dev/pts").WithIoctlDev(),
	); err != nil {
		return err
	}
	return known.RestrictScoped()
}

// refused lists system calls that commands do not need and that reach far into the kernel: other
// processes, mounts, keys, modules, rings, and memory outside every limit.
var refused = []string{
	"acct", "add_key", "bpf", "chroot", "clock_adjtime", "clock_settime", "create_module", "delete_module", "fanotify_init", "finit_module", "fsconfig",
	"fsmount", "fsopen", "fspick", "init_module", "ioperm", "iopl", "kcmp", "kexec_file_load", "kexec_load", "keyctl", "listmount", "lookup_dcookie", "lsm_set_self_attr",
	"migrate_pages", "mount", "mount_setattr", "move_mount", "move_pages", "msgget", "name_to_handle_at", "nfsservctl", "open_by_handle_at", "open_tree", "open_tree_attr",
	"perf_event_open", "pidfd_getfd", "pivot_root", "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd", "reboot", "request_key",
	"setdomainname", "sethostname", "setns", "settimeofday", "shmget", "statmount", "stime", "swapoff", "swapon", "syslog", "sysfs", "umount", "umount2", "unshare",
	"uselib", "userfaultfd", "ustat", "vhangup", "vm86", "vm86old",
}

// absent lists system calls that programs can do without if the kernel says that it lacks them.
var absent = []string{"clone3", "io_uring_enter", "io_uring_register", "io_uring_setup", "memfd_create", "memfd_secret"}

// newNamespaces are the flags of clone that create namespaces.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// filter makes the kernel refuse these system calls for this thread and its children.
func filter() error {
	here, err := arch.GetInfo("")
	if err != nil {
		return err
	}
	there := func(names []string) (all []string) {
		for _, n := range names {
			if _, ok := here.SyscallNames[n]; ok {
				all = append(all, n)
			}
		}
		return all
	}
	no := seccomp.ActionErrno | seccomp.Action(unix.EPERM)
	policy := seccomp.Policy{DefaultAction: seccomp.ActionAllow, Syscalls: []seccomp.SyscallGroup{
		{Action: no, Names: there(refused)},
		{Action: seccomp.ActionErrno | seccomp.Action(unix.ENOSYS), Names: there(absent)},
		{Action: no, NamesWithCondtions: []seccomp.NameWithConditions{
			{Name: "clone", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.BitsSet, Value: newNamespaces}}},
			// Typing into a terminal in the user's name.
			{Name: "ioctl", Conditions: is32(1, unix.TIOCSTI)},
			{Name: "ioctl", Conditions: is32(1, unix.TIOCLINUX)},
			// Only unix, IPv4, IPv6 and netlink sockets are allowed. Others, such as vsock, ignore
			// network namespaces or are seldom reviewed.
			{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.LessThan, Value: unix.AF_UNIX}}},
			{Name: "socket", Conditions: between(0, unix.AF_INET, unix.AF_INET6)},
			{Name: "socket", Conditions: between(0, unix.AF_INET6, unix.AF_NETLINK)},
			{Name: "socket", Conditions: seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.GreaterThan, Value: unix.AF_NETLINK}}},
		}},
	}}
	program, err := policy.Assemble()
	if err != nil {
		return err
	}
	// The library allows calls of another architecture, which a 64-bit program can make, too.
	program = append([]bpf.Instruction{
		bpf.LoadAbsolute{Off: 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: uint32(here.ID), SkipTrue: 1},
		bpf.RetConstant{Val: uint32(seccomp.ActionErrno) | uint32(unix.ENOSYS)},
	}, program...)
	raw, err := bpf.Assemble(program)
	if err != nil {
		return err
	}
	return load(raw)
}

// is32 compares the 32 bits of an argument that the kernel uses, and ignores the others.
func is32(argument uint32, value uint32) (all seccomp.ArgumentConditions) {
	all = append(all, seccomp.Condition{Argument: argument, Operation: seccomp.BitsNotSet, Value: uint64(^value)})
	for bit := uint32(1); bit != 0; bit <<= 1 {
		if value&bit != 0 {
			all = append(all, seccomp.Condition{Argument: argument, Operation: seccomp.BitsSet, Value: uint64(bit)})
		}
	}
	return all
}

func between(argument uint32, low, high uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: argument, Operation: seccomp.GreaterThan, Value: low}, {Argument: argument, Operation: seccomp.LessThan, Value: high}}
}
