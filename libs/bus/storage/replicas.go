package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Replicas is the number of servers of a NATS cluster that keep each bucket and stream: 1, 3 or 5,
// or Auto. More than half of them must run for it to be usable.
type Replicas int

// Auto is 3 if the NATS cluster has at least three servers, otherwise 1.
const Auto Replicas = 0

// automatic is the number that Auto tries first.
const automatic = 3

// raiseEvery is how often more replicas of a store are requested after the cluster had too few
// servers. A request that is refused for another reason is repeated at Keep's next round: the
// cluster may have been choosing a leader.
const raiseEvery = 15 * time.Second

// Validate returns an error for a number that no store can have.
func (r Replicas) Validate() error {
	switch r {
	case Auto, 1, 3, 5:
		return nil
	}
	return fmt.Errorf("%d replicas: use 1, 3 or 5, or \"auto\" for three where the NATS cluster has as many servers", r)
}

// UnmarshalText reads the value of a flag or an environment variable.
func (r *Replicas) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = Auto
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a valid number of replicas: use 1, 3, 5 or auto", text)
	}
	*r = Replicas(n)
	return r.Validate()
}

// wanted is the number of servers that should keep a store.
func (s *Storage) wanted() int {
	switch {
	case s.replicas != Auto:
		return int(s.replicas)
	case s.conn.Clustered():
		return automatic
	}
	return 1
}

// tooFew reports whether the cluster has too few servers for the requested replicas.
func tooFew(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == noPeers
}

// noPeers is JetStream's code for "no suitable peers for placement".
const noPeers = 10005

// raise gives a store the wanted number of replicas; an operator's higher number stays. NATS copies
// the contents while the store is used. Too few servers are not an error: they may come later, so
// the request is repeated.
func (s *Storage) raise(ctx context.Context, one store, now jetstream.StreamConfig) error {
	want := now
	want.Replicas = max(now.Replicas, s.wanted())
	s.mu.Lock()
	soon := time.Since(s.raised[one.stream]) < raiseEvery
	s.mu.Unlock()
	if want.Replicas == now.Replicas || soon {
		return nil
	}
	_, err := s.conn.JetStream().UpdateStream(ctx, want)
	switch {
	case err == nil:
		s.conn.Log().Info("a part of the bus's storage is put on more servers", "what", one.name, "replicas", want.Replicas)
	case tooFew(err):
		s.mu.Lock()
		s.raised[one.stream] = time.Now()
		s.mu.Unlock()
		if s.replicas != Auto {
			s.conn.Log().Warn("a part of the bus's storage is on fewer servers than it should be", "what", one.name, "replicas", now.Replicas, "wanted", want.Replicas)
		}
		return nil
	}
	return err
}
