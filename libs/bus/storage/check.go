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

// State is the state of a bucket or stream of the bus, with its problems.
type State struct {
	// Name is "bucket sessions" or "stream AUDIT".
	Name string `json:"name"`
	// Replicas is the number of servers that keep it, 0 if it is missing or does not answer. Wanted
	// is the number that should.
	Replicas int `json:"replicas"`
	Wanted   int `json:"wanted"`
	// Leader is the server that takes writes; empty without a cluster.
	Leader string `json:"leader,omitzero"`
	// Messages and Bytes are the amounts kept; Limit is the limit in bytes.
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	Limit    int64  `json:"limit"`
	// Consumers are the consumers with a name, which keep their position.
	Consumers []Consumer `json:"consumers,omitzero"`
	// Problems are the problems found; nil for none.
	Problems []Problem `json:"problems,omitzero"`
}

// Problem is one problem of a store.
type Problem struct {
	// The problem, its consequence, and the fix.
	What    string `json:"what"`
	Follows string `json:"follows"`
	Mend    string `json:"mend"`
}

// mendByApply is the command that creates missing stores and corrects settings.
const mendByApply = "busbar bus apply --nats-nkey edge.secret"

// The fixes for servers that do not work: NATS turns JetStream off when its disk is full, and does
// not turn it on again by itself.
const (
	mendDisk    = "; if it runs, make room on its disk and restart it"
	mendServers = "start each NATS server that keeps it" + mendDisk
)

// Consumer reads a stream for all instances of a service.
type Consumer struct {
	Name string `json:"name"`
	// Pending counts messages that are not delivered yet; Unacknowledged counts delivered ones that
	// are not acknowledged.
	Pending        uint64 `json:"pending"`
	Unacknowledged int    `json:"unacknowledged"`
}

// A server counts as away after this silence: JetStream itself notices only servers that announce
// their stop. A server is behind if it lacks this many messages.
const (
	silent = 5 * time.Second
	behind = 1000
)

// nearlyFull is the part of a limit from which a store counts as nearly full.
const nearlyFull = 0.9

// Check reads the state of every bucket and stream of the bus, and changes nothing.
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
		wrong("full, it takes no more", enlarge(one.stream, 2*state.Limit), "it is nearly full: %d of %d MiB", state.Bytes>>20, state.Limit>>20)
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

// enlarge is the command that makes a stream larger. Only the user of the edges may do that.
func enlarge(stream string, bytes int64) string {
	return fmt.Sprintf("nats --nkey edge.secret --inbox-prefix _INBOX.edge stream edit %s --max-bytes %d", stream, bytes)
}

// filler names the service with the most entries in a shared bucket, and a fix. The sizes of
// entries are known only to edges, which have a metric for them.
func filler(ctx context.Context, found jetstream.Stream, one store) (who, mend string) {
	mend = enlarge(one.stream, 2*found.CachedInfo().Config.MaxBytes) + ", if services need as much"
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

// differing returns the names of the settings in which two configurations differ.
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

// Apply creates the buckets and streams of the bus, and sets the number of replicas of each, even
// to fewer; Auto keeps more than three. Their contents are kept. Every store is tried; the error
// names those that failed.
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
