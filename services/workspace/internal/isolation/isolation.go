// Package isolation runs a command that nobody here trusts: it sees one directory and
// the programs of the system, has no network, no rights and no environment of this
// process, and ends with all that it has started. Bubblewrap makes what it sees, or this
// program itself does with namespaces; Landlock and seccomp are a second wall in both.
// docs/isolation.md says what that promises.
package isolation

import (
	"fmt"
	"strings"
	"time"
)

// Way is how commands are kept apart.
type Way string

const (
	// Auto is the first of the next two that works here.
	Auto Way = "auto"
	// Bubblewrap has the program bwrap make what a command sees.
	Bubblewrap Way = "bubblewrap"
	// Namespaces makes it without another program.
	Namespaces Way = "namespaces"
	// None keeps nothing apart, and says so.
	None Way = "commands-may-do-all-this-service-may"
)

// Command is what runs.
type Command struct {
	// Line is for /bin/sh.
	Line string
	// Dir is the directory that the command sees, and may change. It is called Inside there.
	Dir, Inside string
	// Guarded are files and directories below Dir, with slashes, that stay as they are.
	Guarded []string
	// ReadOnly are files and directories of this machine that the command may read besides
	// the system's programs, under the same names.
	ReadOnly []string
	// Env is the environment, besides what every command has.
	Env []string
	Limits
}

// Limits bound a command with all that it starts.
type Limits struct {
	// Time is from start to end.
	Time time.Duration
	// CPU is the processor time of each process.
	CPU time.Duration
	// Memory is for all processes, and for what is in /tmp.
	Memory int64
	// Processes counts threads as well.
	Processes int
	// Disk bounds each file, all of /tmp, and by how much the file system of Dir may fill.
	Disk int64
	// Output is for the bytes of its output; 0 is MaxOutput.
	Output int
}

// MaxOutput is the most bytes that a command may write to its output.
const MaxOutput = 256 << 20

// Reasons for which a command is stopped.
const (
	StoppedTime      = "time"
	StoppedMemory    = "memory"
	StoppedProcesses = "processes"
	StoppedDisk      = "disk"
	StoppedOutput    = "output"
	StoppedCancelled = "cancelled"
)

// Result is how a command ended.
type Result struct {
	// Exit is the exit status; -1 for a command that a signal ended, or that was stopped.
	Exit int
	// Signal ended the command; empty for none.
	Signal string
	// Stopped is why the command was ended from outside; empty if it was not.
	Stopped string
	// CPU is the processor time of all its processes that are over.
	CPU time.Duration
}

// Check says whether a setting names a way.
func (w Way) Check() error {
	switch w {
	case Auto, Bubblewrap, Namespaces, None:
		return nil
	}
	return fmt.Errorf("the isolation of commands is %s, %s or %s; or %s, which keeps nothing apart", Auto, Bubblewrap, Namespaces, None)
}

// CheckReadOnly says whether a directory can be shown to commands.
func CheckReadOnly(dir string) error {
	clean := strings.TrimRight(dir, "/")
	switch {
	case !strings.HasPrefix(dir, "/") || strings.ContainsAny(dir, "\x00\n") || strings.Contains(dir+"/", "/../"):
		return fmt.Errorf("%q is no absolute path, or has .. in it", dir)
	case clean == "":
		return fmt.Errorf("the whole file system is not shown to commands: name a directory in it")
	}
	for _, own := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/workspace", launcherPath} {
		if clean == own || strings.HasPrefix(clean, own+"/") && own != "/tmp" && own != "/run" {
			return fmt.Errorf("%q cannot be shown to commands: they have a %s of their own, or none", dir, own)
		}
	}
	return nil
}

const (
	// launcher is the name under which this program starts itself to run a command.
	launcher     = "busbar-isolation"
	launcherPath = "/" + launcher
)
