package soak

import (
	"os/exec"
	"syscall"
)

// diesWithUs has the kernel kill the child when this process is gone, however
// it went.
func diesWithUs(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
