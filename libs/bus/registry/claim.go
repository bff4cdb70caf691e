package registry

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// ErrOtherStore means that instances of the service are there whose data is
// elsewhere.
var ErrOtherStore = errors.New("runs already, on another database than this instance's")

const (
	// storeLook is how often a store that is another's is looked at, storeTime how
	// long one look, or write, may take.
	storeLook = 250 * time.Millisecond
	storeTime = 2 * time.Second
)

// Claim has all instances of a service work on one store of its data. The
// key "store" under the service's name in the registry holds its id, and its
// instances renew it as they beat.
type Claim struct {
	conn        *bus.Conn
	service, id string
	sequence    uint64
	// quit ends with Release, and what keep asks of the bus with it.
	quit context.Context
	stop context.CancelFunc
	done chan struct{}
}

// ClaimStore returns once the service's store is the one of this id, and keeps
// it so until Release. It fails with ErrOtherStore when instances with another
// store are there; those that are gone are waited for, BeatTTL at most. While the
// registry cannot be written it waits until ctx ends. lost is called if another
// store has taken its place, after this process was away for longer than BeatTTL.
func ClaimStore(ctx context.Context, conn *bus.Conn, service, id string, lost func()) (*Claim, error) {
	s := &Claim{conn: conn, service: service, id: id, done: make(chan struct{})}
	var others uint64 // what another store's key was at when it was first seen
	for said := false; ; {
		there, sequence, err := s.look(ctx)
		switch {
		case err == nil && there == id:
			s.sequence = sequence
			return s.held(ctx, lost), nil
		case err == nil && there != "" && others != 0 && sequence != others:
			return nil, fmt.Errorf("service %s %w: each would have a part of the data. Start all instances on one Postgres with --database-url "+
				"(BUSBAR_DATABASE_URL), or stop the others and wait %v", service, ErrOtherStore, BeatTTL)
		case err == nil && there != "":
			others = sequence
		case err == nil:
			if err = s.write(ctx, sequence); err == nil {
				return s.held(ctx, lost), nil
			}
		}
		if err != nil && !said {
			said = true
			conn.Log().Warn("waiting for the registry, to see which store the service works on; an edge makes it", "service", service, "error", err)
		}
		select {
		case <-time.After(storeLook):
		case <-ctx.Done():
			return nil, fmt.Errorf("service %s: which store it works on is not known: %w", service, errors.Join(ctx.Err(), err))
		}
	}
}

// held begins to renew the claim.
func (s *Claim) held(ctx context.Context, lost func()) *Claim {
	s.quit, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.keep(lost)
	return s
}

func (s *Claim) key() string { return key(s.service, "store") }

func (s *Claim) subject() string {
	return subject.Key(bus.RegistryBucket, s.key())
}

// look returns the store that counts, empty for none, and the sequence of what
// says so, with the one permission that this takes.
func (s *Claim) look(ctx context.Context) (id string, sequence uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	msg, err := s.conn.NATS().RequestWithContext(ctx, subject.GetKey(bus.RegistryBucket, s.key()), nil)
	if err != nil {
		return "", 0, err
	}
	switch msg.Header.Get("Status") {
	case "404":
		return "", 0, nil
	case "":
	default:
		return "", 0, fmt.Errorf("the registry says %s %s", msg.Header.Get("Status"), msg.Header.Get("Description"))
	}
	if sequence, err = strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil || wire.Deleted(msg.Header) {
		return "", sequence, err
	}
	return string(msg.Data), sequence, nil
}

// write puts the store's id there, unless somebody has written since a sequence.
func (s *Claim) write(ctx context.Context, after uint64) error {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	msg := nats.NewMsg(s.subject())
	msg.Data = []byte(s.id)
	ack, err := s.conn.JetStream().PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0), jetstream.WithExpectLastSequencePerSubject(after))
	if err == nil {
		s.sequence = ack.Sequence
	}
	return err
}

// keep renews the claim, as the other instances of the store do.
func (s *Claim) keep(lost func()) {
	defer close(s.done)
	timer := time.NewTimer(wire.Jitter(BeatEvery))
	defer timer.Stop()
	for {
		select {
		case <-s.quit.Done():
			return
		case <-timer.C:
		}
		if s.write(s.quit, s.sequence) != nil {
			there, sequence, err := s.look(s.quit)
			if err == nil && there != "" && there != s.id {
				s.conn.Log().Error("another store of the service's data has taken the place of this one; no more calls are taken", "service", s.service)
				go lost()
				return
			}
			if err == nil {
				s.sequence = sequence
			}
		}
		timer.Reset(wire.Jitter(BeatEvery))
	}
}

// Release stops renewing the claim. It stays for as long as other instances
// renew it, and BeatTTL after that.
func (s *Claim) Release() {
	s.stop()
	<-s.done
}
