// Package isolation runs an untrusted command: it sees one directory and the programs of the system, has
// no network, no rights and no environment of this process, and ends together with everything it started.
// Its view of the files is made by Bubblewrap, or by this program itself with namespaces; Landlock and
// seccomp are a second wall in both cases. docs/explanation/security.md says what that promises. Start at Run;
// launch_linux.go has the process that starts the command.
package isolation

import (
	"fmt"
	"strings"
	"time"
)

// Way is a way to isolate commands.
type Way string

const (
	// Auto is the first of the next two that works on this machine.
	Auto Way = "auto"
	// Bubblewrap uses the program bwrap.
	Bubblewrap Way = "bubblewrap"
	// Namespaces needs no other program.
	Namespaces Way = "namespaces"
	// None isolates nothing, and its name says so.
	None Way = "commands-may-do-all-this-service-may"
)

// Command is a command to run.
type Command struct {
	// Line is a line for /bin/sh.
	Line string
	// Dir is the directory that the command sees and may change. Inside is its path there.
	Dir, Inside string
	// Guarded are slash-separated paths below Dir that the command cannot change.
	Guarded []string
	// ReadOnly are files and directories of this machine that the command may read besides
	// the system's programs, at the same paths.
	ReadOnly []string
	// Env adds variables to the environment that every command has.
	Env []string
	Limits
}

// Limits bound a command together with everything it starts.
type Limits struct {
	// Time is the time from start to end.
	Time time.Duration
	// CPU is the processor time of each process.
	CPU time.Duration
	// Memory bounds all processes and the files in /tmp together.
	Memory int64
	// Processes counts threads, too.
	Processes int
	// Disk bounds each file, /tmp, and the growth of the file system of Dir.
	Disk int64
	// Output is the limit of its output in bytes; 0 means MaxOutput.
	Output int
}

// MaxOutput is the largest output of a command, in bytes.
//
//limit:workspace output of a command | it is stopped
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
	// Exit is the exit status; -1 if a signal ended the command, or it was stopped.
	Exit int
	// Signal is the signal that ended the command; empty if none did.
	Signal string
	// Stopped says why the command was stopped from outside; empty if it was not.
	Stopped string
	// CPU is the processor time of all its finished processes.
	CPU time.Duration
}

// Check returns an error if the setting does not name a way.
func (w Way) Check() error {
	switch w {
	case Auto, Bubblewrap, Namespaces, None:
		return nil
	}
	return fmt.Errorf("the isolation of commands is not valid; use %s, %s or %s, or %s, which isolates nothing", Auto, Bubblewrap, Namespaces, None)
}

// CheckReadOnly returns an error if a directory cannot be shown to commands.
func CheckReadOnly(dir string) error {
	clean := strings.TrimRight(dir, "/")
	switch {
	case !strings.HasPrefix(dir, "/") || strings.ContainsAny(dir, "\x00\n") || strings.Contains(dir+"/", "/../"):
		return fmt.Errorf("%q is not an absolute path, or contains ..; give an absolute path", dir)
	case clean == "":
		return fmt.Errorf("the whole file system cannot be shown to commands; name a directory in it")
	}
	for _, own := range []string{"/proc", "/sys", "/dev", "/tmp", "/run", "/workspace", launcherPath} {
		if clean == own || strings.HasPrefix(clean, own+"/") && own != "/tmp" && own != "/run" {
			return fmt.Errorf("%q cannot be shown to commands, because they have their own %s, or none; name another directory", dir, own)
		}
	}
	return nil
}

const (
	// launcher is the name under which this program starts itself to run a command.
	launcher     = "busbar-isolation"
	launcherPath = "/" + launcher
)
