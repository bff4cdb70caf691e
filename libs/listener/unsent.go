package listener

import "net"

// maxUnsent is how many bytes the kernel takes that it cannot send yet, because the client
// has not read what came before. What is more waits in the program, which counts it and
// gives a client up that reads nothing. By itself the kernel takes 4 MiB for each.
const maxUnsent = 256 << 10

// leaveLittle has the kernel take no more than that. One that does not know how goes on as
// it would.
func leaveLittle(c net.Conn) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(setUnsent)
	}
}
