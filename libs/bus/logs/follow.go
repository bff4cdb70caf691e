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
	// askEvery is how often instances are asked to go on, and those that are new to begin.
	askEvery = life / 3
	// settle is how long instances that answer together may take for it.
	settle = 300 * time.Millisecond
	// surveyTime is how long instances have to say that they are there.
	surveyTime = time.Second
	// The records that wait for a slow reader; what is more is left out, by the client of NATS
	// here.
	maxWaiting, maxWaitingBytes = 4096, 8 << 20
	// maxServices bounds what is followed, and maxInstances what is known of those that
	// answer for each: one that makes instances up takes no room of others.
	maxServices, maxInstances = 10_000, 1000
)

// Reader is told what is followed. Its functions may take their time: what does not fit
// meanwhile is missed.
type Reader struct {
	Record func(Record) error
	// Missed is told how many records of an instance did not fit; 0 for a number that nobody
	// knows, since it was not heard of for so long that it stopped to send them.
	Missed func(service, instance string, n uint64) error
	// Here is told how many instances are followed of how many services, and how many have
	// as many followers as they take: soon after the beginning, and when that changes.
	Here func(instances, services, refused int) error
}

// inboxes are where services answer: each has one of its own, which others do not know,
// so that none can speak for another.
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

// instance is what is known of one that is followed.
type instance struct {
	// number is the number of the last record that came, or is known to be missing.
	number  uint64
	refused bool
	// heard is when it last answered. gone: it has said that it leaves, or not answered for
	// as long as it would send without being asked.
	heard time.Time
	gone  bool
}

// fleet is what is known of instances, by service and instance.
type fleet map[string]map[string]*instance

// Follow tells a reader what calls of services log, from now on and until ctx ends or the reader
// fails; of all services on the bus, if none are named. It takes the rights of an operator.
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
	// look is when those that do not answer any more are looked for.
	look := time.Now().Add(life)
	// tell is when the reader is told who is here.
	tell := time.Now().Add(surveyTime + settle)
	for {
		if now := time.Now(); !now.Before(look) {
			look = now.Add(askEvery)
			// While a reader was slow, answers wait here.
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
			if asked.Err() != nil { // whatever its cause: that is how following ends
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

// next waits for a message until then.
func next(ctx context.Context, sub *nats.Subscription, until time.Time) (*nats.Msg, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errSettled)
	defer cancel()
	msg, err := sub.NextMsgWithContext(ctx)
	if err != nil && errors.Is(context.Cause(ctx), errSettled) {
		err = errSettled
	}
	return msg, err
}

// take tells the reader, and reports whether it changes who is here.
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

// lose notes those that do not answer any more, and reports whether there are any that
// did.
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

// ask has the instances of services send what they log, as long as ctx goes on. An error
// is one that lasts.
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
		// NATS says afterwards that it does not let this user ask.
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
