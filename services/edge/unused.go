package edge

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// maxUnused is how many connections without a request an edge keeps. A flood of them
// would otherwise use up all connections for idleTime.
//
//limit:connection connections that have not sent a request yet | the address with the most loses its oldest
const maxUnused = 1000

// unusedConns are the connections that have not brought a request yet. Clients open some
// ahead of need. If there are more than most, the address with the most of them loses its
// oldest. Shutdown closes them all, because otherwise it would wait five seconds for
// each.
type unusedConns struct {
	most int

	mu     sync.Mutex
	all    int
	from   map[string][]net.Conn // by address, the oldest first
	closed bool
}

// note is an http.Server's ConnState.
func (u *unusedConns) note(c net.Conn, s http.ConnState) {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case s != http.StateNew:
		if i := slices.Index(u.from[address], c); i >= 0 {
			u.remove(address, i)
		}
	case u.closed:
		_ = c.Close()
	default:
		u.from[address] = append(u.from[address], c)
		if u.all++; u.all > u.most {
			most := address
			for one, conns := range u.from {
				if len(conns) > len(u.from[most]) {
					most = one
				}
			}
			_ = u.from[most][0].Close()
			u.remove(most, 0)
		}
	}
}

func (u *unusedConns) remove(address string, i int) {
	u.all--
	if u.from[address] = slices.Delete(u.from[address], i, i+1); len(u.from[address]) == 0 {
		delete(u.from, address)
	}
}

func (u *unusedConns) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for _, conns := range u.from {
		for _, c := range conns {
			_ = c.Close()
		}
	}
}
