package storage

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Replicas is on how many servers of a NATS cluster each bucket and stream is kept:
// 1, 3 or 5, or Auto. One more than half of them have to run for it to be used.
type Replicas int

// Auto is 3 where the NATS cluster has as many servers, and else 1.
const Auto Replicas = 0

// automatic is what Auto tries.
const automatic = 3

// raiseEvery is how often a store is asked to be on more servers, once the cluster had
// too few for that. What it refuses for other reasons is asked for again as soon as Keep
// looks: it may have been choosing a leader.
const raiseEvery = 15 * time.Second

// Validate returns an error for a number that no store can have.
func (r Replicas) Validate() error {
	switch r {
	case Auto, 1, 3, 5:
		return nil
	}
	return fmt.Errorf("%d replicas: use 1, 3 or 5, or \"auto\" for three where the NATS cluster has as many servers", r)
}

// UnmarshalText reads what a flag or a variable says.
func (r *Replicas) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*r = Auto
		return nil
	}
	n, err := strconv.Atoi(string(text))
	if err != nil || n < 1 {
		return fmt.Errorf("%q is no number of replicas: use 1, 3, 5 or auto", text)
	}
	*r = Replicas(n)
	return r.Validate()
}

// wanted is on how many servers a store should be.
func (s *Storage) wanted() int {
	switch {
	case s.replicas != Auto:
		return int(s.replicas)
	case s.conn.Clustered():
		return automatic
	}
	return 1
}

// tooFew reports whether too few servers of the cluster are there for the replicas
// asked for.
func tooFew(err error) bool {
	var refused *jetstream.APIError
	return errors.As(err, &refused) && refused.ErrorCode == noPeers
}

// noPeers is JetStream's code for "no suitable peers for placement".
const noPeers = 10005

// raise puts a store on as many servers as it should be on: an operator's higher
// number stays. What it holds is copied by NATS while it is used. That a cluster has
// fewer servers now is no error: they may come back, or come, and are asked for again.
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
