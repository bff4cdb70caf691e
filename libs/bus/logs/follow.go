package logs

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

const (
	// askEvery is how often instances are asked to continue, and new ones to begin.
	askEvery = life / 3
	// settle is how long instances that answer together may take.
	settle = 300 * time.Millisecond
	// surveyTime is how long instances have to report their presence.
	surveyTime = time.Second
	// The limits of records queued for a slow reader; the NATS client drops further ones.
	maxWaiting, maxWaitingBytes = 4096, 8 << 20
	// maxServices limits the followed services, and maxInstances the known instances of each: a
	// service with made-up instances takes no room from others.
	maxServices, maxInstances = 10_000, 1000
)

// Reader receives the followed records. Its functions may be slow: records that do not fit
// meanwhile are missed.
type Reader struct {
	Record func(Record) error
	// Missed is called with the number of an instance's records that did not fit; 0 if the number
	// is unknown, because the instance was not asked for so long that it stopped sending.
	Missed func(service, instance string, n uint64) error
	// Here is called with the number of followed instances and services, and the number of
	// instances that refused because they have too many followers: soon after the start, and after
	// changes.
	Here func(instances, services, refused int) error
}

// inboxes are the subjects for answers: each service has its own, which others do not know, so no
// service can answer for another.
type inboxes struct {
	root string
	all  sync.Map // service by token
}

// add makes the inbox of a service.
func (i *inboxes) add(service string) string {
	token := bus.NewID()
	i.all.Store(token, service)
	return i.root + token
}

func (i *inboxes) service(subject string) string {
	service, _ := i.all.Load(strings.TrimPrefix(subject, i.root))
	name, _ := service.(string)
	return name
}

// instance is what is known about a followed instance.
type instance struct {
	// number is the number of the last record that arrived or is known to be missing.
	number  uint64
	refused bool
	// heard is when it last answered. gone is set if it announced that it leaves, or has not
	// answered for as long as it sends without being asked.
	heard time.Time
	gone  bool
}

// fleet has the known instances, by service and name.
type fleet map[string]map[string]*instance

// Follow gives a reader the log records of services' calls, from now on until ctx ends or the
// reader fails; of all services on the bus if none are named. It needs the rights of an operator.
func Follow(ctx context.Context, conn *bus.Conn, services []string, filter Filter, r Reader) error {
	if err := filter.Check(); err != nil {
		return err
	}
	for _, s := range services {
		if err := subject.ValidName(s); err != nil {
			return err
		}
	}
	nc := conn.NATS()
	inboxes := inboxes{root: nc.NewInbox() + "."}
	sub, err := nc.SubscribeSync(inboxes.root + "*")
	if err == nil {
		err = sub.SetPendingLimits(maxWaiting, maxWaitingBytes)
	}
	if err != nil {
		return wire.NotSent(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	asked := ctx
	ctx, cancel := context.WithCancelCause(asked)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(ask(ctx, conn, services, filter, &inboxes))
	}()
	defer func() { cancel(nil); <-ended }()
	known := fleet{}
	// look is when to check next for instances that no longer answer.
	look := time.Now().Add(life)
	// tell is when to report the present instances to the reader.
	tell := time.Now().Add(surveyTime + settle)
	for {
		if now := time.Now(); !now.Before(look) {
			look = now.Add(askEvery)
			// While the reader was slow, answers were queued.
			if waiting, _, err := sub.Pending(); err == nil && waiting == 0 && known.lose(now) && tell.IsZero() {
				tell = now
			}
		}
		until := look
		if !tell.IsZero() && tell.Before(look) {
			until = tell
		}
		msg, err := next(ctx, sub, until)
		if !tell.IsZero() && !time.Now().Before(tell) {
			tell = time.Time{}
			if err := r.here(known); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, nats.ErrSlowConsumer), errors.Is(err, nats.ErrNoResponders), errors.Is(err, errSettled):
			continue // the numbers say how many are missing
		case err != nil:
			if asked.Err() != nil { // the end of ctx ends following, whatever its cause
				return nil
			}
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return wire.NotSent(err)
		}
		s, ok := readSaid(msg.Data)
		if !ok || inboxes.service(msg.Subject) != s.Here.Service {
			continue
		}
		changed, err := r.take(known, s)
		if err != nil {
			return err
		}
		if soon := time.Now().Add(settle); changed && (tell.IsZero() || tell.After(soon)) {
			tell = soon
		}
	}
}

var errSettled = errors.New("nothing came until then")

// next waits for a message until the given time.
func next(ctx context.Context, sub *nats.Subscription, until time.Time) (*nats.Msg, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errSettled)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errSettled) {
		err = errSettled
	}
	return msg, err
}

// take passes a message to the reader, and reports whether the set of instances changed.
func (r Reader) take(known fleet, s said) (changed bool, err error) {
	h := s.Here
	i, ok := known[h.Service][h.Instance]
	if !ok && len(known[h.Service]) >= maxInstances {
		maps.DeleteFunc(known[h.Service], func(_ string, i *instance) bool { return i.gone })
	}
	if !ok && (h.Left || len(known[h.Service]) >= maxInstances) {
		return false, nil
	}
	if !ok {
		i = &instance{}
		if known[h.Service] == nil {
			known[h.Service] = map[string]*instance{}
		}
		known[h.Service][h.Instance] = i
	}
	lapsed := ok && h.New && !i.refused
	changed = !ok || i.gone != h.Left || s.Record == nil && i.refused != h.Refused
	if s.Record == nil {
		i.refused = h.Refused
	}
	i.heard, i.gone = time.Now(), h.Left
	missed := h.Number - min(i.number, h.Number)
	i.number = h.Number
	if missed > 0 || lapsed {
		err = r.Missed(h.Service, h.Instance, missed)
	}
	if s.Record != nil && err == nil {
		i.number = s.Record.Number
		err = r.Record(*s.Record)
	}
	return changed, err
}

// lose marks the instances that no longer answer, and reports whether there are new ones among
// them.
func (f fleet) lose(now time.Time) (changed bool) {
	for _, instances := range f {
		for _, i := range instances {
			if !i.gone && now.Sub(i.heard) > life {
				i.gone, changed = true, true
			}
		}
	}
	return changed
}

func (r Reader) here(known fleet) error {
	var here, services, refused int
	for _, instances := range known {
		before := here
		for _, i := range instances {
			switch {
			case i.gone:
			case i.refused:
				refused++
			default:
				here++
			}
		}
		if here > before {
			services++
		}
	}
	return r.Here(here, services, refused)
}

// ask makes the instances of services send log records until ctx ends. It returns only lasting
// errors.
func ask(ctx context.Context, conn *bus.Conn, services []string, filter Filter, inboxes *inboxes) error {
	asked := map[string]string{} // inboxes by service
	tell := func(r request) {
		data, err := json.Marshal(r)
		if err != nil {
			return
		}
		for s, inbox := range asked { // a service that is away for a while comes back
			_ = conn.NATS().PublishRequest(subject.Logs(s), inbox, data)
		}
	}
	defer tell(request{End: true})
	for _, s := range services {
		asked[s] = inboxes.add(s)
	}
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for {
		if len(services) == 0 {
			all, _ := conn.Survey(ctx, surveyTime) // a bus that is away comes back
			for _, reading := range all {
				if _, ok := asked[reading.Service]; !ok && subject.ValidName(reading.Service) == nil && len(asked) < maxServices {
					asked[reading.Service] = inboxes.add(reading.Service)
				}
			}
		}
		tell(request{Filter: filter})
		// NATS reports a missing permission only afterwards.
		if err := conn.Flush(ctx); err != nil && conn.Connected() && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
