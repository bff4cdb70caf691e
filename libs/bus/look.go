package bus

import (
	"context"
	"crypto/x509"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Peer is the NATS server of a connection.
type Peer struct {
	Name, Version string
	// Cluster is empty for a server that is alone.
	Cluster string
	// Took is the time of its answer.
	Took time.Duration
	// Certificate is the server's certificate; nil without TLS.
	Certificate *x509.Certificate
}

// Peer pings the NATS server.
func (c *Conn) Peer(ctx context.Context) (Peer, error) {
	began := time.Now()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return Peer{}, fmt.Errorf("the NATS server does not answer: %w", err)
	}
	p := Peer{Name: c.nc.ConnectedServerName(), Version: c.nc.ConnectedServerVersion(), Cluster: c.nc.ConnectedClusterName(), Took: time.Since(began)}
	if state, err := c.nc.TLSConnectionState(); err == nil && len(state.PeerCertificates) > 0 {
		p.Certificate = state.PeerCertificates[0]
	}
	return p, nil
}

// Allowed has the subjects that NATS lets a user publish and subscribe to, as in package
// permission. Both are nil for a user who may do everything.
type Allowed struct{ Publish, Subscribe []string }

// Allowed asks NATS what this user may do. That needs a permission too: an error may mean that the
// server's configuration lacks it.
func (c *Conn) Allowed(ctx context.Context) (Allowed, error) {
	answer, err := c.nc.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return Allowed{}, fmt.Errorf("NATS does not say what this user may do: %w", err)
	}
	type subjects struct {
		Allow []string `json:"allow"`
	}
	var said struct {
		Data struct {
			Permissions struct {
				Publish   subjects `json:"publish"`
				Subscribe subjects `json:"subscribe"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer.Data, &said); err != nil {
		return Allowed{}, fmt.Errorf("what NATS says of this user cannot be read: %w", err)
	}
	p := said.Data.Permissions
	return Allowed{p.Publish.Allow, p.Subscribe.Allow}, nil
}
