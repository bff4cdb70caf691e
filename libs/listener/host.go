package listener

import (
	"net"
	"strings"
)

// HostOf returns a host name without its port and without the brackets of IPv6.
func HostOf(hostport string) string {
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		return h
	}
	return strings.Trim(hostport, "[]")
}

// IsLoopbackHost reports whether a host name, with or without a port, always means this machine,
// whatever a name server answers. A web page whose own name resolves to loopback (DNS rebinding)
// sends its own name, which is not accepted.
func IsLoopbackHost(hostport string) bool {
	name := HostOf(hostport)
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}
