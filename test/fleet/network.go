package fleet

import (
	"errors"
	"fmt"
	"io"
	"net"
)

// Network claims a network of loopback that no other fleet has, for Options.Network. It
// is free again once claim is closed.
func Network() (network string, claim io.Closer, err error) {
	for n := 20; n < 120; n++ {
		network = fmt.Sprintf("127.0.%d", n)
		if l, err := net.Listen("tcp", network+".250:1025"); err == nil {
			return network, l, nil
		}
	}
	return "", nil, errors.New("no network of loopback is free")
}

// Probes are the addresses at which parts of the fleet show what they count.
func (f *Fleet) Probes() (all []string) {
	for _, part := range f.parts {
		if at := setting(part, "BUSBAR_METRICS_LISTEN"); at != "" {
			_, port, _ := net.SplitHostPort(at)
			all = append(all, net.JoinHostPort(f.place.address(part), port))
		}
	}
	return all
}
