//go:build !linux

package e2e

import "os/exec"

func diesWithUs(*exec.Cmd) {}
