package database

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// probeEvery is how often a server that is away is tried, and probeTime how
	// long it has to answer.
	probeEvery = 100 * time.Millisecond
	probeTime  = time.Second
)

// circuit is open while the server is away: then calls fail immediately, and only the probe tries
// to connect.
type circuit struct {
	pool *pgxpool.Pool
	stop context.CancelFunc
	ctx  context.Context

	mu     sync.Mutex
	reason error // not nil while the server is away, and forever once it is closed
	probes sync.WaitGroup
}

func newCircuit(pool *pgxpool.Pool) *circuit {
	c := &circuit{pool: pool}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c
}

// away returns why the server does not answer; nil if it does.
func (c *circuit) away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// trip opens the circuit: the server does not answer.
func (c *circuit) trip(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reason == nil {
		c.reason = reason
		c.probes.Go(c.probe)
	}
}

// probe waits until the server answers. It uses a connection outside the pool, because the pool may
// be full of calls that wait for dead connections.
func (c *circuit) probe() {
	for {
		select {
		case <-time.After(probeEvery):
		case <-c.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(c.ctx, probeTime)
		conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
		if err == nil {
			err = conn.Ping(ctx)
			_ = conn.Close(ctx)
		}
		cancel()
		if err == nil {
			c.pool.Reset() // connections from before are dead
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.reason != errClosed {
				c.reason = nil
			}
			return
		}
	}
}

// close ends the probe.
func (c *circuit) close() {
	c.mu.Lock()
	c.reason = errClosed
	c.mu.Unlock()
	c.stop()
	c.probes.Wait()
}
