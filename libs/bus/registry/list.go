package registry

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
)

// Instance is a running instance, as in its last announcement.
type Instance struct {
	Service  string    `json:"service"`
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Digest   string    `json:"digest"`
	Started  time.Time `json:"started"`
	// Ahead is how far its clock was ahead of the NATS server's when the server stored the
	// announcement; negative means behind. Zero for an instance that does not report it.
	Ahead time.Duration `json:"-"`
}

// List returns the running instances, ordered by service and name. Errors come from JetStream.
func List(ctx context.Context, conn *bus.Conn) (all []Instance, err error) {
	err = conn.Bucket(bus.RegistryBucket).AllWritten(ctx, func(at string, value []byte, written time.Time) {
		service, instance, _ := strings.Cut(at, ".")
		ann, ok := parse(service, instance, value)
		if !ok {
			return
		}
		in := Instance{
			Service: ann.Service, Instance: ann.Instance, Version: ann.Version, Digest: ann.CatalogueDigest,
			Started: time.Unix(0, int64(ann.StartedUnixNano)),
		}
		if ann.SentUnixNano != 0 {
			in.Ahead = time.Unix(0, int64(ann.SentUnixNano)).Sub(written)
		}
		all = append(all, in)
	})
	slices.SortFunc(all, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Instance, b.Instance))
	})
	return all, err
}

// ClockAhead returns how far the clock of this process is ahead of the clock of the NATS server
// that leads the registry.
func ClockAhead(ctx context.Context, conn *bus.Conn) (time.Duration, error) {
	asked := conn.Now()
	found, err := conn.JetStream().Stream(ctx, "KV_"+bus.RegistryBucket)
	if err != nil {
		return 0, err
	}
	took := conn.Now().Sub(asked)
	at := found.CachedInfo().TimeStamp
	if at.IsZero() {
		return 0, errors.New("the NATS server did not report its time")
	}
	return asked.Add(took / 2).Sub(at), nil
}
