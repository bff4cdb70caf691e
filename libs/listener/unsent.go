package listener

import "net"

// maxUnsent is how many bytes the kernel buffers for a client that has not read the earlier
// ones. Further bytes wait in the program, which counts them and closes the connection of a
// client that reads nothing. By default the kernel buffers 4 MiB for each.
const maxUnsent = 256 << 10

// leaveLittle limits the kernel's buffer to that. A kernel without this option keeps its
// default.
func leaveLittle(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(setUnsent)
	}
}
