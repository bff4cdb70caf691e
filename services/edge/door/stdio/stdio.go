// Package stdio is the door of clients that start the server as their child:
// one JSON-RPC message per line on standard input and output, both eras.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/era"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// Config says between what the door stands.
type Config struct {
	Server *era.Server
	In     io.Reader
	Out    io.Writer
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	// Grace is how long calls in flight may go on after the input ends. Default
	// 1.5 s: clients wait about two before they kill.
	Grace time.Duration
}

// maxInFlight bounds the requests being answered. More are refused: if reading
// waited instead, no cancellation could make room.
const maxInFlight = 1024

// Door serves one client.
type Door struct {
	cfg  Config
	peer *era.Peer

	running sync.WaitGroup
	slots   chan struct{}

	// output is held while a message is written. A channel, because who waits
	// for it must hear of broken.
	output chan struct{}
	broken context.Context
	fail   context.CancelCauseFunc
}

// New makes the door.
func New(cfg Config) *Door {
	if cfg.Limits.Bytes == 0 {
		cfg.Limits.Bytes = mcp.DefaultLimits().Bytes
	}
	if cfg.Grace == 0 {
		cfg.Grace = 1500 * time.Millisecond
	}
	d := &Door{cfg: cfg, peer: era.NewPeer(), slots: make(chan struct{}, maxInFlight), output: make(chan struct{}, 1)}
	d.broken, d.fail = context.WithCancelCause(context.Background())
	return d
}

// Run answers messages until the input ends or ctx does, then finishes the
// calls in flight. A malformed line is answered with an error and does no
// other harm. Run returns the error of the output, if there was one; a read of
// the input, and a write that the client does not take, may outlive it.
func (d *Door) Run(ctx context.Context) error {
	calls, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	lines := make(chan line)
	go d.read(calls, lines)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		defer stop()
		d.serve(calls, reading, lines)
	}()
	select {
	case <-reading.Done():
	case <-d.broken.Done():
	}
	stop()
	// Streams end now, with their results; calls get their grace, and then a
	// moment to say that they were cancelled.
	d.cfg.Server.Close()
	grace := time.AfterFunc(d.cfg.Grace, abort)
	defer grace.Stop()
	stuck := time.AfterFunc(d.cfg.Grace+lastWrite, func() { d.fail(errStuck) })
	defer stuck.Stop()
	done := make(chan struct{})
	go func() {
		d.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-d.broken.Done():
	}
	return context.Cause(d.broken)
}

// lastWrite is how long the client may take, after the grace, to read the last
// answers.
const lastWrite = 250 * time.Millisecond

var errStuck = errors.New("the client does not read its answers")

// serve answers lines until there are no more or reading ends.
func (d *Door) serve(calls, reading context.Context, lines <-chan line) {
	for {
		select {
		case l, more := <-lines:
			if !more {
				return
			}
			d.line(calls, l)
		case <-reading.Done():
			return
		case <-d.broken.Done():
			return
		}
	}
}

type line struct {
	text []byte
	// long is set for a line over the limit, whose text is dropped.
	long bool
}

// read cuts the input into lines.
func (d *Door) read(ctx context.Context, lines chan<- line) {
	defer close(lines)
	in := bufio.NewReaderSize(d.cfg.In, 64<<10)
	for {
		var l line
		for {
			part, err := in.ReadSlice('\n')
			if !l.long {
				l.text = append(l.text, part...)
				l.long = len(l.text) > d.cfg.Limits.Bytes+2
			}
			if l.long {
				l.text = nil
			}
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				if len(l.text) == 0 && !l.long {
					return
				}
				break // the last line has no end; reading again says so
			}
		}
		l.text = bytes.TrimSuffix(bytes.TrimSuffix(l.text, []byte("\n")), []byte("\r"))
		select {
		case lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

func (d *Door) line(ctx context.Context, l line) {
	if l.long {
		d.refuse(nil, "", fault.New(fault.TooLarge, "a line is longer than %d bytes", d.cfg.Limits.Bytes))
		return
	}
	if len(bytes.TrimSpace(l.text)) == 0 {
		return
	}
	s := d.peer.Session.Load()
	if mcp.IsBatch(l.text) && s != nil && s.Version == mcp.V20250326 {
		d.batch(ctx, s, l.text)
		return
	}
	m, err := mcp.Parse(l.text, d.cfg.Limits)
	if err != nil {
		d.refuse(&m, versionOf(&m, s), err)
		return
	}
	r := &era.Request{Message: &m, Door: "stdio", Version: versionOf(&m, s), Session: s, Peer: d.peer}
	switch {
	case m.Kind == mcp.Request && m.Method == mcp.MethodInitialize && m.P.ProtocolVersion == "":
		d.initialize(ctx, r)
	case m.Kind != mcp.Request:
		d.cfg.Server.Handle(ctx, r, discard{})
	case !mcp.IsSupported(r.Version):
		d.refuse(&m, mcp.Modern, era.UnsupportedVersion(r.Version))
	default:
		d.answer(ctx, r)
	}
}

// batch answers a batch, which 2025-03-26 alone has, beside other requests.
func (d *Door) batch(ctx context.Context, s *session.Session, text []byte) {
	entries, err := mcp.ParseBatch(text, d.cfg.Limits)
	if err != nil {
		d.refuse(nil, s.Version, err)
		return
	}
	base := era.Request{Door: "stdio", Version: s.Version, Session: s, Peer: d.peer}
	select {
	case d.slots <- struct{}{}:
	default:
		d.refuse(nil, s.Version, fault.New(fault.Overloaded, "%d requests are in flight already; wait for an answer", maxInFlight))
		return
	}
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		defer func() { <-d.slots }()
		if responses := d.cfg.Server.Batch(ctx, base, entries); responses != nil {
			d.Respond(0, responses)
		}
	}()
}

// answer answers a request beside the others.
func (d *Door) answer(ctx context.Context, r *era.Request) {
	select {
	case d.slots <- struct{}{}:
	default:
		d.cfg.Server.Refuse(r, d, fault.New(fault.Overloaded, "%d requests are in flight already; wait for an answer", maxInFlight))
		return
	}
	rest := d.cfg.Server.Begin(ctx, r, d)
	if rest == nil {
		<-d.slots
		return
	}
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		defer func() { <-d.slots }()
		rest()
	}()
}

// versionOf says under which version a message is: its own, or the one that
// initialize settled for this process. Before either, methods that only one
// era has tell; for the rest the oldest reading does no harm.
func versionOf(m *mcp.Message, s *session.Session) string {
	switch {
	case m.P.ProtocolVersion != "":
		return m.P.ProtocolVersion
	case m.Method == mcp.MethodDiscover || m.Method == mcp.MethodListen:
		return mcp.Modern
	case s != nil:
		return s.Version
	}
	return mcp.V20250326
}

func (d *Door) initialize(ctx context.Context, r *era.Request) {
	s, response := d.cfg.Server.Initialize(r, d)
	if s == nil {
		return
	}
	if d.peer.Session.Swap(s) != nil {
		d.Respond(0, response)
		return
	}
	answered := make(chan struct{})
	d.running.Add(1)
	go func() {
		defer d.running.Done()
		now := func(context.Context) *session.Session { return d.peer.Session.Load() }
		d.cfg.Server.Changes(ctx, d, now, func() {
			d.Respond(0, response)
			close(answered)
		})
	}()
	<-answered
}

func (d *Door) refuse(m *mcp.Message, version string, err error) {
	_, message := era.ErrorMessage(m, version, err)
	d.Respond(0, message)
}

// Notify implements era.Exchange.
func (d *Door) Notify(message []byte) { d.Respond(0, message) }

// Ask implements era.Exchange.
func (d *Door) Ask(message []byte) bool {
	d.Respond(0, message)
	return d.broken.Err() == nil
}

// Respond implements era.Exchange: all messages share the one output.
func (d *Door) Respond(_ int, message []byte) {
	select {
	case d.output <- struct{}{}:
	case <-d.broken.Done():
		return
	}
	defer func() { <-d.output }()
	if d.broken.Err() != nil {
		return
	}
	if _, err := d.cfg.Out.Write(append(message, '\n')); err != nil {
		d.fail(err)
	}
}

// discard is the exchange of messages that get no answer.
type discard struct{}

func (discard) Notify([]byte)       {}
func (discard) Ask([]byte) bool     { return false }
func (discard) Respond(int, []byte) {}
