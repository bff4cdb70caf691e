package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/sourcegraph/conc/iter"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// State is what a bucket or stream of the bus is, and what is wrong with it.
type State struct {
	// Name is "bucket sessions" or "stream AUDIT".
	Name string `json:"name"`
	// Replicas are the servers that keep it, 0 where it is not there or does not
	// answer; Wanted as many as should.
	Replicas int `json:"replicas"`
	Wanted   int `json:"wanted"`
	// Leader is the server that takes what is written; empty without a cluster.
	Leader string `json:"leader,omitzero"`
	// Messages and Bytes are kept; Limit is how many bytes may be.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Limit    int64  `json:"limit"`
	// Consumers are those with a name, which keep their place.
	Consumers []Consumer `json:"consumers,omitzero"`
	// Problems say what is not as it should be; nil where all is well.
	Problems []Problem `json:"problems,omitzero"`
}

// Problem is one thing that is not as it should be.
type Problem struct {
	// What is wrong, its consequence, and the fix.
	What    string `json:"what"`
	Follows string `json:"follows"`
	Mend    string `json:"mend"`
}

// mendByApply is the command that makes what is missing and sets what has to be.
const mendByApply = "busbar bus apply --nats-nkey edge.secret"

// What to do about servers that do not do their part: NATS turns JetStream off when its
// disk is full, and not on again by itself.
const (
	mendDisk    = "; if it runs, make room on its disk and restart it"
	mendServers = "start each NATS server that keeps it" + mendDisk
)

// Consumer reads a stream for all instances of a service.
type Consumer struct {
	Name string `json:"name"`
	// Pending messages are not delivered yet; Unacknowledged are delivered and not
	// done with.
	Pending        uint64 `json:"pending"`
	Unacknowledged int    `json:"unacknowledged"`
}

// A server is away when it was silent for so long: JetStream notices by itself only
// when one says that it goes. It is behind with so many messages less.
const (
	silent = 5 * time.Second
	behind = 1000
)

// nearlyFull is the share of a limit from which a store is said to be nearly full.
const nearlyFull = 0.9

// Check looks at every bucket and stream of the bus, and changes nothing.
func Check(ctx context.Context, conn *bus.Conn, replicas Replicas) []State {
	s := &Storage{conn: conn, replicas: replicas}
	return iter.Map(stores, func(one *store) State { return s.check(ctx, *one) })
}

func (s *Storage) check(ctx context.Context, one store) State {
	state := State{Name: one.name, Wanted: s.wanted()}
	wrong := func(follows, mend, format string, args ...any) {
		state.Problems = append(state.Problems, Problem{fmt.Sprintf(format, args...), follows, mend})
	}
	ctx, cancel := context.WithTimeout(ctx, ensureTime)
	defer cancel()
	found, err := s.conn.JetStream().Stream(ctx, one.stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		wrong("what needs it fails, until an edge that runs makes it again", mendByApply, "it is not there")
		return state
	case err != nil:
		wrong("what needs it fails", mendServers, "it does not answer: %v", err)
		return state
	}
	info := found.CachedInfo()
	state.Replicas, state.Messages, state.Bytes, state.Limit = info.Config.Replicas, info.State.Msgs, info.State.Bytes, info.Config.MaxBytes
	if state.Replicas < state.Wanted {
		wrong("the loss of a NATS server stops it, and the loss of its disk loses what it holds", mendByApply, "it is kept on %d of %d servers", state.Replicas, state.Wanted)
	}
	if want := one.wants(info.Config); !reflect.DeepEqual(want, info.Config) {
		wrong("what it keeps, and for how long, is not what the documents say", mendByApply, "%s of its configuration not as this release wants it", strings.Join(differing(info.Config, want), ", "))
	}
	switch {
	case one.keys > 0 && fullness(info) >= tight:
		who, mend := filler(ctx, found, one)
		wrong("a service with more than its share begins nothing new there; from nine tenths on, edges remove the oldest of what it has beyond its share",
			mend, "it is nearly full: %d of %d MiB, %d of %d entries%s", state.Bytes>>20, state.Limit>>20, info.State.Msgs, info.Config.MaxMsgs, who)
	case one.keys == 0 && state.Limit > 0 && float64(state.Bytes) >= nearlyFull*float64(state.Limit):
		wrong("full, it takes no more", fmt.Sprintf("nats stream edit %s --max-bytes %d", one.stream, 2*state.Limit), "it is nearly full: %d of %d MiB", state.Bytes>>20, state.Limit>>20)
	}
	if c := info.Cluster; c != nil && c.Name != "" {
		if state.Leader = c.Leader; c.Leader == "" {
			wrong("what needs it fails", mendServers, "it has no leader: fewer than half of its servers are there")
		}
		for _, peer := range c.Replicas {
			switch {
			case gone(peer):
				wrong("one more away may stop it", "start NATS server "+peer.Name+mendDisk, "server %s is away: last heard %v ago", peer.Name, peer.Active.Round(time.Second))
			case !peer.Current && peer.Lag > behind:
				wrong("what was written last is on fewer servers", "wait until it has caught up; look at its disk and network", "server %s is %d messages behind", peer.Name, peer.Lag)
			}
		}
	}
	if one.consumed {
		state.Consumers, err = consumers(ctx, found)
		if err != nil {
			wrong("nobody knows here who has read what", "have the NATS servers load what \"busbar nats-config\" prints", "its consumers cannot be listed: %v", err)
		}
	}
	return state
}

// filler says who has most entries in a bucket that services write, and what to do. How
// large entries are is for edges to see, which have a figure of it.
func filler(ctx context.Context, found jetstream.Stream, one store) (who, mend string) {
	mend = fmt.Sprintf("nats stream edit %s --max-bytes %d, if services need as much", one.stream, 2*found.CachedInfo().Config.MaxBytes)
	info, err := found.Info(ctx, jetstream.WithSubjectFilter(subject.Key(one.bucket, ">")))
	if err != nil {
		return "", mend
	}
	entries := map[string]uint64{}
	for at, n := range info.State.Subjects {
		service, _, _ := strings.Cut(subject.KeyOf(one.bucket, at), ".")
		entries[service] += n
	}
	most := ""
	for service, n := range entries {
		if n > entries[most] || n == entries[most] && service < most {
			most = service
		}
	}
	if most == "" {
		return "", mend
	}
	return fmt.Sprintf("; service %s has %d of them", most, entries[most]),
		fmt.Sprintf("look why service %s writes so much, or stop it; busbar_bus_storage_share_bytes at /metrics of an edge says how large everybody's share is; %s", most, mend)
}

// differing are the names of the settings that two configurations differ in.
func differing(now, want jetstream.StreamConfig) (names []string) {
	a, b := reflect.ValueOf(now), reflect.ValueOf(want)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			names = append(names, a.Type().Field(i).Name)
		}
	}
	return names
}

func consumers(ctx context.Context, found jetstream.Stream) (all []Consumer, err error) {
	list := found.ListConsumers(ctx)
	for c := range list.Info() {
		if c.Config.Durable != "" {
			all = append(all, Consumer{c.Name, c.NumPending, c.NumAckPending})
		}
	}
	slices.SortFunc(all, func(a, b Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return all, list.Err()
}

// Apply makes the buckets and streams of the bus, and gives each the number of
// replicas said, fewer than it has as well; Auto leaves more than three alone. What
// they hold is kept. Every store is tried; the error has those that failed.
func Apply(ctx context.Context, conn *bus.Conn, replicas Replicas) error {
	s, err := Ensure(ctx, conn, replicas)
	if err != nil {
		return err
	}
	var failed []error
	for _, one := range stores {
		if err := s.lower(ctx, one); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", one.name, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Storage) lower(ctx context.Context, one store) error {
	info, err := s.look(ctx, one)
	if err != nil || s.replicas == Auto || info.Config.Replicas <= int(s.replicas) {
		return err
	}
	want := info.Config
	want.Replicas = int(s.replicas)
	_, err = s.conn.JetStream().UpdateStream(ctx, want)
	return err
}
