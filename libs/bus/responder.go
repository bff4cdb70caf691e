package bus

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/flow"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
)

const (
	// inlineResult is the largest result sent in one frame; larger ones go out
	// in chunks, so that small messages behind them do not wait long.
	inlineResult = 256 << 10
	chunkSize    = 128 << 10
	// largeResults is how many results go out in chunks at once, over one connection; largeWindow
	// how many chunks of one result may be unconfirmed by the bus, and largeWait how long the bus
	// may take for them.
	largeResults = 2
	largeWindow  = 4
	largeWait    = time.Second
)

// Responder writes the frames of one call's answer. Its methods may be used
// from any goroutine; after the terminal frame they do nothing.
type Responder struct {
	server *Server
	// sender is the service that made the call; empty for an edge.
	sender string
	// given ends when nobody waits for the answer any more; nil if that is unknown.
	given context.Context

	mu sync.Mutex
	// reply is the subject of an answer that ends at once; stream is the subject of any other, if
	// there is one. subject is the one in use.
	reply, stream, subject string
	seq                    uint32
	// named is set once a frame with the name of the instance was sent: the first one has it.
	named, done bool
	alive       *time.Timer
	// asking is set while the caller's permit is awaited.
	asking   bool
	question flow.Question
}

func newResponder(s *Server, reply string) *Responder {
	r := &Responder{server: s, reply: reply}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alive = time.AfterFunc(flow.FirstAlive, r.beat)
	return r
}

// keep makes the answer go to the request's stream, if it has one.
func (r *Responder) keep(req *busv1.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.subject != "" || !subject.OwnFrames(r.server.cfg.Service, req.Stream) {
		return
	}
	r.stream = req.Stream
	if req.StreamAll {
		r.subject = req.Stream
	}
}

// Sender is the service that made a call of the Gateway.
func (r *Responder) Sender() string { return r.sender }

// Progress reports how far the call has come. It never blocks on the client.
func (r *Responder) Progress(p *busv1.Progress) {
	r.send(&busv1.Frame{Body: &busv1.Frame_Progress{Progress: p}})
}

// Log sends a log record to the call's client.
func (r *Responder) Log(l *busv1.Log) {
	r.send(&busv1.Frame{Body: &busv1.Frame_Log{Log: l}})
}

// Disconnect asks the edge to close the client's connection until the client reconnects. It does
// nothing for a client that cannot.
func (r *Responder) Disconnect(retry time.Duration) {
	r.mu.Lock()
	resumable := r.stream != ""
	r.mu.Unlock()
	if resumable {
		r.send(&busv1.Frame{Body: &busv1.Frame_Disconnect{Disconnect: &busv1.Disconnect{RetryMs: uint32(max(0, retry.Milliseconds()))}}})
	}
}

// beat sends heartbeats until the terminal frame.
func (r *Responder) beat() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	f := &busv1.Frame{Body: &busv1.Frame_Alive{Alive: &busv1.Alive{}}}
	if r.subject != "" && r.subject == r.stream && r.seq > 0 {
		// A stream need not keep these.
		if data, err := proto.Marshal(f); err == nil {
			_ = r.server.conn.nc.Publish(subject.Live(r.stream), data)
		}
	} else {
		r.publish(f)
	}
	r.ready()
	r.alive.Reset(flow.AliveEvery)
}

// ask starts asking the caller for its permit, now and with every heartbeat; false stops it.
func (r *Responder) ask(asking bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asking = asking
	r.ready()
}

// ready sends the question.
func (r *Responder) ready() {
	if !r.asking || r.done {
		return
	}
	r.question = r.question.Ask(time.Now())
	data, err := proto.Marshal(&busv1.Frame{Instance: r.server.instance, Body: &busv1.Frame_Ready{Ready: &busv1.Ready{Turn: r.question.Turn}}})
	if err == nil {
		err = r.server.conn.nc.Publish(r.reply, data)
	}
	if err != nil {
		r.server.conn.log.Debug("permit not asked for; trying on", "service", r.server.cfg.Service, "error", err)
	}
}

// heard is what a permit means that answers the question.
func (r *Responder) heard(p *busv1.Permit) flow.Reply {
	r.mu.Lock()
	defer r.mu.Unlock()
	reply := r.question.Heard(time.Now(), p.Granted, p.Turn)
	if reply == flow.AskAgain {
		r.ready()
	}
	return reply
}

func (r *Responder) send(f *busv1.Frame) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	if f.GetChunk() != nil {
		r.deliver(f)
	} else {
		r.publish(f)
	}
	r.alive.Reset(flow.AliveEvery)
}

// end sends the terminal frame.
func (r *Responder) end(body proto.Message) {
	if b, ok := body.(*busv1.Result); ok && len(b.Json) > inlineResult && len(b.Json) <= MaxResult {
		b.Json = r.chunks(b.Json)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done {
		return
	}
	r.done = true
	r.alive.Stop()
	f := &busv1.Frame{Instance: r.server.instance}
	switch b := body.(type) {
	case *busv1.Result:
		if len(b.Json) > MaxResult {
			f.Body = &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.ResultTooLarge,
				"the result is %d bytes; the limit is %d. Ask for less, or have the tool return a resource link", len(b.Json), MaxResult))}
			break
		}
		f.Body = &busv1.Frame_Result{Result: b}
	case *busv1.InputRequired:
		f.Body = &busv1.Frame_InputRequired{InputRequired: b}
	case *busv1.Task:
		f.Body = &busv1.Frame_Task{Task: b}
	case *busv1.Outcome:
		f.Body = &busv1.Frame_Outcome{Outcome: b}
	case *busv1.Error:
		f.Body = &busv1.Frame_Error{Error: b}
	default:
		r.server.conn.log.Error("handler returned no result", "service", r.server.cfg.Service)
		f.Body = &busv1.Frame_Error{Error: wire.FromFault(fault.New(fault.Internal, "service %s gave no result", r.server.cfg.Service))}
	}
	r.deliver(f)
}

// deliver publishes a frame that must not be lost, and repeats it if the connection is moving to
// another server.
func (r *Responder) deliver(f *busv1.Frame) {
	if r.publish(f) {
		return
	}
	r.mu.Unlock()
	r.server.conn.Settle(context.Background())
	r.mu.Lock()
	if !r.publish(f) {
		r.seq++ // a missing frame must show
	}
}

// chunks sends all of a large result but its last piece, which it returns. It waits for its turn,
// and after each window for the bus, so that small messages on this connection do not wait long;
// heartbeats continue. Once the caller has given up, as an edge without room for the result does,
// it sends no more.
func (r *Responder) chunks(json []byte) []byte {
	conn := r.server.conn
	conn.large <- struct{}{}
	defer func() { <-conn.large }()
	r.mu.Lock()
	if r.subject == "" {
		r.subject = r.reply // the answer ends at once
	}
	r.mu.Unlock()
	for n := 1; len(json) > chunkSize; n++ {
		if r.given != nil && r.given.Err() != nil {
			r.abandon()
			return nil
		}
		r.send(&busv1.Frame{Body: &busv1.Frame_Chunk{Chunk: &busv1.Chunk{Data: json[:chunkSize]}}})
		json = json[chunkSize:]
		if n%largeWindow == 0 {
			_ = conn.nc.FlushTimeout(largeWait) // a failed send is reported later
		}
	}
	return json
}

func (r *Responder) fail(e *fault.Error) { r.end(wire.FromFault(e)) }

// abandon ends the responder without a frame.
func (r *Responder) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
	r.alive.Stop()
}

func (r *Responder) close() { r.abandon() }

// publish sends one frame, and reports whether it was sent. One too large for a message is replaced
// by a typed error: silence would cost the caller its whole deadline.
func (r *Responder) publish(f *busv1.Frame) bool {
	if r.subject == "" {
		r.subject = r.reply
		if r.stream != "" && !r.done {
			r.subject = r.stream
		}
	}
	r.seq++
	f.Seq = r.seq
	if !r.named {
		f.Instance = r.server.instance
	}
	notification := f.GetProgress() != nil || f.GetLog() != nil
	data, err := proto.Marshal(f)
	log := r.server.conn.log
	if err != nil && notification {
		r.seq-- // dropped: the call matters more than a notification
		log.Warn("notification cannot be encoded; dropped", "service", r.server.cfg.Service, "error", err)
		return true
	}
	if err != nil {
		log.Error("frame cannot be encoded", "service", r.server.cfg.Service, "error", err)
		data, _ = proto.Marshal(&busv1.Frame{Seq: r.seq, Instance: r.server.instance, Body: &busv1.Frame_Error{
			Error: wire.FromFault(fault.New(fault.Internal, "service %s gave an answer that cannot be encoded", r.server.cfg.Service))}})
		r.done = true
	}
	if limit := r.server.conn.nc.MaxPayload(); limit > 0 && int64(len(data)) > limit {
		if notification {
			r.seq--
			log.Warn("notification exceeds a bus message; dropped", "service", r.server.cfg.Service, "bytes", len(data))
			return true
		}
		data, _ = proto.Marshal(&busv1.Frame{Seq: r.seq, Instance: r.server.instance, Body: &busv1.Frame_Error{
			Error: wire.FromFault(fault.New(fault.ResultTooLarge, "the answer is %d bytes; a bus message carries %d", len(data), limit))}})
		r.done = true
	}
	if err := r.server.conn.nc.Publish(r.subject, data); err != nil {
		r.seq-- // no receiver has seen it
		log.Warn("answer not sent", "service", r.server.cfg.Service, "error", err)
		return false
	}
	r.named = true
	return true
}
