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

// ErrOtherStore means that the service has instances with another store.
var ErrOtherStore = errors.New("already runs on another database than this instance's")

const (
	// storeLook is the interval of checks of another store's claim, storeTime the time limit of
	// one check or write.
	storeLook = 250 * time.Millisecond
	storeTime = 2 * time.Second
)

// Claim makes all instances of a service use the same store. The key "store" under the service's name in
// the registry holds the store's id, and the instances renew it with their heartbeats.
type Claim struct {
	conn        *bus.Conn
	service, id string
	sequence    uint64
	// quit ends with Release, and ends the requests of keep.
	quit context.Context
	stop context.CancelFunc
	done chan struct{}
}

// ClaimStore returns once the service's store has this id, and keeps it so until Release. It fails with
// ErrOtherStore if instances with another store are running; it waits up to BeatTTL for dead ones to
// expire. While the registry cannot be written, it waits until ctx ends. lost is called if another store
// has taken over after this process was disconnected for longer than BeatTTL.
func ClaimStore(ctx context.Context, conn *bus.Conn, service, id string, lost func()) (*Claim, error) {
	s := &Claim{conn: conn, service: service, id: id, done: make(chan struct{})}
	var others uint64 // revision of another store's key when it was first seen
	for said := false; ; {
		there, sequence, err := s.look(ctx)
		switch {
		case err == nil && there == id:
			s.sequence = sequence
			return s.held(ctx, lost), nil
		case err == nil && there != "" && others != 0 && sequence != others:
			return nil, fmt.Errorf("service %s %w, so each would have a part of the data; start all instances on one Postgres with --database-url "+
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
			conn.Log().Warn("waiting for the registry, to learn which store the service uses; start an edge, which creates it", "service", service, "error", err)
		}
		select {
		case <-time.After(storeLook):
		case <-ctx.Done():
			return nil, fmt.Errorf("service %s: its store is not known: %w", service, errors.Join(ctx.Err(), err))
		}
	}
}

// held starts to renew the claim.
func (s *Claim) held(ctx context.Context, lost func()) *Claim {
	s.quit, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	go s.keep(lost)
	return s
}

func (s *Claim) key() string { return key(s.service, "store") }

func (s *Claim) subject() string {
	return subject.Key(bus.RegistryBucket, s.key())
}

// look returns the claimed store, empty if none, and the sequence of the claim. It needs only one
// permission.
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
		return "", 0, fmt.Errorf("the registry answered %s %s", msg.Header.Get("Status"), msg.Header.Get("Description"))
	}
	if sequence, err = strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64); err != nil || wire.Deleted(msg.Header) {
		return "", sequence, err
	}
	return string(msg.Data), sequence, nil
}

// write writes the store's id, unless somebody has written since a sequence.
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
				s.conn.Log().Error("another store of the service's data has replaced this one; this instance accepts no more calls", "service", s.service)
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

// Release stops renewing the claim. The claim stays while other instances renew it, and for BeatTTL after
// that.
func (s *Claim) Release() {
	s.stop()
	<-s.done
}
