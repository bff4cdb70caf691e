package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/share"
	"github.com/busbar-mcp/busbar/libs/tracing"
)

// Handler carries out one call. Its context ends at the deadline, when the caller gives up, and
// when the server is told to stop at once. It returns the body of a terminal frame: *busv1.Result,
// *busv1.InputRequired or *busv1.Task. An error that is not a *fault.Error reaches the caller as
// internal, without its text. A panic ends the call, not the process.
type Handler func(ctx context.Context, req *busv1.Request, out *Responder) (proto.Message, error)

// ServerConfig configures a Server.
type ServerConfig struct {
	// Service is the name that calls are addressed to: a ValidName.
	Service string
	Handler Handler
	// Concurrency is how many calls run at once. Default 64. Four times as many may wait for a
	// slot, half of these from one caller; more are refused as Overloaded. Calls made by tools have
	// separate slots, as many at each depth.
	Concurrency int
	// Observe, unless nil, is called after every call and run of a task that a handler ended, with
	// the terminal frame's body or the error. It must not block.
	Observe func(ctx context.Context, req *busv1.Request, body proto.Message, f *fault.Error, took time.Duration)
	// Logger, unless nil, returns the logger for a request whose handler panics, or fails for a
	// reason that its caller is not told. The default is the connection's logger.
	Logger func(req *busv1.Request) *slog.Logger
	// Clean, unless nil, removes secrets from the text of a panic or an error before it is logged.
	Clean func(text string) string
}

const (
	//limit:call concurrent calls of an instance, unless `WithConcurrency` says otherwise | four times as many wait
	defaultConcurrency = 64
	// maxDepths is how many depths of calls have separate slots; edges allow a depth of four below
	// a client's call.
	maxDepths = 5
	// maxRemaining is the longest time that a request may name as remaining.
	maxRemaining = 48 * time.Hour
)

// StopGrace is how long Drain waits for handlers it has cancelled; one that
// ignores its context must not hold up the process.
const StopGrace = time.Second

// Server takes calls for one service, sharing them with every other server of
// that service on the bus.
type Server struct {
	conn     *Conn
	cfg      ServerConfig
	instance string
	// taking brings the calls for any instance, and those for this one.
	taking []*nats.Subscription
	// control brings the messages for calls in flight: cancellations and permits.
	control []*nats.Subscription

	stop    context.CancelCauseFunc
	ctx     context.Context
	running sync.WaitGroup
	// fetching ends when Drain begins; fetchers are the functions that depend on it.
	fetching context.Context
	leave    context.CancelFunc
	fetchers sync.WaitGroup
	// slots are separate for each depth, so that a call that waits for another call of its own
	// service does not hold that call's slot.
	slots [maxDepths]*slots
	// budgets limit large results at each depth; sizes predict which results are large.
	budgets [maxDepths]*slots
	sizes   sizes
	workers *workers
	queued  atomic.Int64

	mu     sync.Mutex
	live   map[string]*liveCall
	recent recentCalls
	// kept has calls with an idempotency key, begun all calls that asked for a permit.
	kept, begun keptCalls

	served, failed, overloaded atomic.Int64
	// took is the total time of the handlers of served calls; durations counts the calls by time.
	took      atomic.Int64
	durations histogram
	tools     toolCounts

	// seals checks requests; nil accepts all. complained is the time of the last log line about
	// refused ones.
	seals               *sealer
	refused, complained atomic.Int64
}

// liveCall is a call that waits or runs here.
type liveCall struct {
	abort context.CancelFunc
	// permit receives the caller's decision; nil for a call that needs none.
	permit chan *busv1.Permit
}

// Serve starts taking calls and returns once the bus has confirmed it.
func Serve(ctx context.Context, conn *Conn, cfg ServerConfig) (*Server, error) {
	if err := ValidName(cfg.Service); err != nil {
		return nil, fmt.Errorf("service %w", err)
	}
	return serve(ctx, conn, cfg)
}

// ServeGateway is Serve for the Gateway; cfg need not have its name.
func ServeGateway(ctx context.Context, conn *Conn, cfg ServerConfig) (*Server, error) {
	cfg.Service = Gateway
	return serve(ctx, conn, cfg)
}

func serve(ctx context.Context, conn *Conn, cfg ServerConfig) (*Server, error) {
	if cfg.Concurrency <= 0 {
		cfg.Concurrency = defaultConcurrency
	}
	s := &Server{
		conn: conn, cfg: cfg, instance: NewID()[:12],
		workers: newWorkers(cfg.Concurrency),
		sizes:   newSizes(),
		live:    map[string]*liveCall{},
		kept:    keptCalls{life: keptLife, maxBytes: maxKeptBytes, maxCalls: maxKeptCalls},
		begun:   keptCalls{life: recentLife, maxBytes: maxRecentBytes, maxCalls: maxRecentCalls, whole: true},
	}
	for i := range s.slots {
		s.slots[i], s.budgets[i] = newSlots(cfg.Concurrency), newSlots(resultBudget)
	}
	if cfg.Service != Gateway {
		s.seals = conn.sealer(cfg.Service)
		s.sayUnsealed()
	}
	s.ctx, s.stop = context.WithCancelCause(context.Background())
	s.fetching, s.leave = context.WithCancel(s.ctx)
	if err := s.subscribe(ctx); err != nil {
		for _, sub := range append(s.control, s.taking...) {
			_ = sub.Unsubscribe()
		}
		return nil, fmt.Errorf("start service %s: %w", cfg.Service, err)
	}
	return s, nil
}

func (s *Server) subscribe(ctx context.Context) error {
	nc, service := s.conn.nc, s.cfg.Service
	type what struct {
		list      *[]*nats.Subscription
		at, group string
		f         nats.MsgHandler
	}
	all := []what{
		{&s.control, subject.Cancel(service), "", s.cancel},
		{&s.control, subject.Permit(service, s.instance), "", s.heard},
		{&s.taking, subject.Calls(service), service, s.receive},
		{&s.taking, subject.ToInstance(service, s.instance), "", s.receive},
	}
	if service == Gateway {
		all = []what{{&s.control, subject.CancelsFrom, "", s.cancel}, {&s.taking, subject.FromServices, Gateway, s.receive}}
	}
	for _, what := range all {
		sub, err := nc.QueueSubscribe(what.at, what.group, what.f)
		if err != nil {
			return err
		}
		*what.list = append(*what.list, sub)
	}
	return s.conn.Flush(ctx)
}

// Config returns the server's configuration.
func (s *Server) Config() ServerConfig { return s.cfg }

// Conn returns the server's connection.
func (s *Server) Conn() *Conn { return s.conn }

// Fetch runs f, which takes work of the service from elsewhere than the calls'
// subjects, and begins it with Go. When Drain begins, ctx ends, and Drain waits
// until f has returned. After that Fetch does nothing.
func (s *Server) Fetch(f func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fetching.Err() == nil {
		s.fetchers.Go(func() { f(s.fetching) })
	}
}

// Go runs f; Drain waits for it as for a call. ctx ends when the service must stop immediately.
func (s *Server) Go(f func(ctx context.Context)) { s.running.Go(func() { f(s.ctx) }) }

// Run carries out a request that is not a call, such as a run of a task, in the way calls are
// carried out. Its ctx also ends when the request is cancelled by its id.
func (s *Server) Run(ctx context.Context, req *busv1.Request, f func(context.Context) (proto.Message, error)) (proto.Message, *fault.Error) {
	ctx, abort := context.WithCancel(ctx)
	defer abort()
	s.mu.Lock()
	s.live[req.Id] = &liveCall{abort: abort}
	s.mu.Unlock()
	defer s.finish(req.Id)
	ctx, span := s.received(ctx, req, time.Now())
	defer tracing.End(span, nil)
	return s.invoke(ctx, req, func() (proto.Message, error) { return f(ctx) })
}

// Instance returns this server's name, unique within its service.
func (s *Server) Instance() string { return s.instance }

// receive starts a call in a goroutine of its own: NATS delivers the next one
// only when this returns.
func (s *Server) receive(msg *nats.Msg) {
	sender, own := "", subject.OwnReply(s.cfg.Service, msg.Reply)
	if s.cfg.Service == Gateway {
		sender = subject.Sender(msg.Subject)
		own = sender != "" && subject.OwnReply(Gateway+"."+sender, msg.Reply)
	}
	if !own {
		return // the reply would reach no caller, or a wrong one
	}
	large := len(msg.Data) > sealAtOnce
	if !large && !s.genuine(msg.Data) {
		return
	}
	received := time.Now()
	out := newResponder(s, msg.Reply)
	out.sender = sender
	if s.queued.Add(1) > int64(maxDepths*5*s.cfg.Concurrency) {
		s.queued.Add(-1)
		if !large || s.genuine(msg.Data) {
			out.fail(s.noSlot())
		}
		return
	}
	s.running.Add(1)
	s.workers.do(s.ctx, func() {
		defer s.running.Done()
		defer s.queued.Add(-1)
		defer out.close()
		if large && !s.genuine(msg.Data) {
			out.abandon()
			return
		}
		s.handle(msg.Data, received, out)
	})
}

// sealAtOnce is the largest request, in bytes, whose seal is checked in the goroutine in which NATS
// delivers it. The check of a larger one takes up to 3 ms and would delay other messages.
const sealAtOnce = 64 << 10

// genuine reports whether an edge has sealed a request for this service.
func (s *Server) genuine(data []byte) bool {
	if s.seals == nil {
		return true
	}
	if err := s.seals.open(data); err != nil {
		s.refuse(err)
		return false
	}
	return true
}

func (s *Server) handle(data []byte, received time.Time, out *Responder) {
	req := &busv1.Request{}
	if err := proto.Unmarshal(data, req); err != nil || req.Id == "" {
		out.fail(fault.New(fault.InvalidRequest, "request is not of the bus protocol, version 1"))
		return
	}
	if s.seals != nil {
		if err := fresh(req, s.conn.now()); err != nil {
			s.refuse(err)
			out.abandon()
			return
		}
	}
	req.Id = ofSender(out.sender, req.Id)
	switch { // about another call, so it needs no slot; services may not ask
	case out.sender != "":
	case req.Method == callOutcome:
		out.end(s.kept.outcome(req.Name))
		return
	case req.Method == callAnswer:
		out.end(s.became(req.Name))
		return
	}
	out.keep(req)
	deadline := time.Unix(0, int64(req.DeadlineUnixNano))
	if req.RemainingNano != 0 { // fault:clock-trusted
		deadline = received.Add(time.Duration(min(req.RemainingNano, uint64(maxRemaining))))
	}
	ctx, abort := context.WithDeadline(s.ctx, deadline) // fault:deadline-extended
	defer abort()
	out.given = ctx
	call := &liveCall{abort: abort}
	if req.AskFirst {
		call.permit = make(chan *busv1.Permit, 1)
	}
	if !s.admit(req.Id, deadline, call) {
		out.abandon() // delivered twice: the first one answers
		return
	}
	defer s.finish(req.Id)
	ctx, span := s.received(ctx, req, received)
	defer tracing.End(span, nil)

	depth := min(req.GetShare().GetDepth(), maxDepths-1)
	slots, budget := s.slots[depth], s.budgets[depth]
	who := share.Name{Tenant: req.GetIdentity().GetTenant(), Account: string(req.GetShare().GetPayer())}
	// Budget first, so that a call waiting for it does not hold a slot that a small call could use.
	large := s.sizes.weight(req)
	if large > 0 {
		if held := budget.take(ctx, who, large); held != nil {
			defer budget.release(held, large)
		} else if ctx.Err() == nil {
			f := s.noRoom()
			ended(ctx, nil, f)
			out.fail(f)
			return
		}
	}
	own := slots.take(ctx, who, 1)
	if own != nil {
		defer slots.release(own, 1)
	} else if ctx.Err() == nil {
		f := s.noSlot()
		ended(ctx, nil, f)
		out.fail(f)
		return
	}
	if ctx.Err() != nil {
		// Late, or cancelled while it waited: no caller waits, nothing runs.
		f := tooLate(s.cfg.Service)
		ended(ctx, nil, f)
		out.fail(f)
		return
	}
	if span != nil {
		span.SetAttributes(attrWaited.Float64(time.Since(received).Seconds()))
	}
	if req.Method == selfCheck {
		out.end(&busv1.Result{Json: []byte("{}")})
		return
	}
	if call.permit != nil {
		known := s.known(req)
		for _, k := range known {
			k.begin(req.Id, who)
		}
		if f := s.permitted(ctx, call, out); f != nil {
			for _, k := range known {
				k.unbegun(req.Id)
			}
			ended(ctx, nil, f)
			out.fail(f)
			return
		}
	}
	body, f := s.run(ctx, req, out)
	if f != nil {
		out.fail(f)
		return
	}
	size := resultSize(body)
	s.sizes.note(req, size)
	if more := mebibytes(size) - large; more > 0 {
		held := budget.add(who, more)
		defer budget.release(held, more)
	}
	out.end(body)
}

// ofSender makes the id of a service's call unique among all services.
func ofSender(sender, id string) string {
	if sender == "" {
		return id
	}
	return sender + "/" + id
}

func (s *Server) noSlot() *fault.Error {
	s.overloaded.Add(1)
	return fault.New(fault.Overloaded, "service %s has no free slot for this caller; try again shortly", s.cfg.Service)
}

func (s *Server) noRoom() *fault.Error {
	s.overloaded.Add(1)
	return fault.New(fault.Overloaded, "service %s has no room for another large result for this caller; try again shortly", s.cfg.Service)
}

func tooLate(service string) *fault.Error {
	return fault.New(fault.DeadlineExceeded, "service %s got the call too late to start it", service).Ran(fault.No)
}

// admit records the call as live. It refuses a call that is live or was seen before, so that
// nothing runs twice by accident.
func (s *Server) admit(id string, deadline time.Time, call *liveCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[id] != nil || !s.recent.add(id, deadline) { // fault:copy-runs
		return false
	}
	s.live[id] = call
	return true
}

func (s *Server) finish(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, id)
}

func (s *Server) cancel(msg *nats.Msg) {
	c := &busv1.Cancel{}
	if err := proto.Unmarshal(msg.Data, c); err != nil {
		return
	}
	if s.cfg.Service == Gateway {
		c.Id = ofSender(subject.Sender(msg.Subject), c.Id)
	}
	s.mu.Lock()
	call := s.live[c.Id]
	// A cancellation that overtook its call is remembered as if the call had been received.
	s.recent.add(c.Id, time.Now().Add(DefaultTimeout))
	s.mu.Unlock()
	if call != nil {
		call.abort() // fault:cancel-ignored
	}
}

// Drain stops taking calls and tasks, finishes those already delivered, and returns when their
// answers have reached the bus. If ctx ends first, running calls are cancelled, and tasks go to
// another instance; handlers that continue nevertheless are left behind.
func (s *Server) Drain(ctx context.Context) error {
	s.mu.Lock()
	s.leave()
	s.mu.Unlock()
	s.fetchers.Wait()
	// While NATS is away nothing is delivered, and the drain of its library would wait.
	for _, sub := range s.taking { // calls in flight still need the others
		if !s.conn.Connected() {
			_ = sub.Unsubscribe()
			continue
		}
		closed := sub.StatusChanged(nats.SubscriptionClosed)
		if err := sub.Drain(); err == nil {
			select {
			case <-closed:
			case <-s.conn.closed: // which no subscription tells
			case <-ctx.Done():
			}
		}
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	var late error
	select {
	case <-done:
	case <-ctx.Done():
		late = fmt.Errorf("service %s: calls still running were cancelled: %w", s.cfg.Service, context.Cause(ctx))
	}
	s.stop(errors.New("the service is stopping"))
	select {
	case <-done:
	case <-time.After(StopGrace):
		late = fmt.Errorf("service %s: %d calls still run although they were cancelled: %w", s.cfg.Service, s.queued.Load(), context.Cause(ctx))
	}
	for _, sub := range s.control {
		_ = sub.Unsubscribe()
	}
	if s.conn.Connected() {
		_ = s.conn.Flush(context.WithoutCancel(ctx))
	}
	return late
}
