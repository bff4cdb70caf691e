package door

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/sourcegraph/conc"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Codes with which a socket is closed, in addition to those in RFC 6455.
const (
	// CloseUnauthorized says that the credentials of the connection are not valid, or no
	// longer.
	CloseUnauthorized = websocket.StatusCode(4401)
	// closeRestart asks the client to connect again (IANA, WebSocket Close Codes).
	closeRestart = websocket.StatusServiceRestart
)

// maxPings is how many pings a client may send between two of ours.
const maxPings = 100

// Connection is a protocol's handler of the messages over a socket. Receive and Drain are
// called by one goroutine.
type Connection interface {
	// Receive handles one message of the client. Work that takes long goes on
	// concurrently, and ends with ctx.
	Receive(ctx context.Context, message []byte)
	// Drain makes the connection refuse new requests from now on.
	Drain()
	// Wait waits until no request runs.
	Wait()
}

// SocketConfig configures the sockets of a door.
type SocketConfig struct {
	// Protocols are the subprotocols that a client may offer. A client that offers none
	// may connect, unless MustOffer is set.
	Protocols []string
	MustOffer bool
	// Limit bounds one message, in bytes.
	Limit int
	// Closing is closed when sockets have to end.
	Closing <-chan struct{}
	// Ended is closed when the client's credentials expire or are revoked.
	Ended <-chan struct{}
}

// Socket is the WebSocket (RFC 6455) of a client: a queue that is written while messages
// are read.
type Socket struct {
	*queue
	// Protocol is the subprotocol; may be empty.
	Protocol string

	conn  *websocket.Conn
	pings atomic.Int32
	// signs counts the signs of life: received bytes, and messages that were handled or
	// written. writing is set while a message is being written.
	signs   atomic.Int64
	writing atomic.Bool
	// closing receives how to end the connection.
	closing chan closing
}

type closing struct {
	code   websocket.StatusCode
	reason string
}

// Close ends the connection after the queued messages. reason is for people, up to 123
// bytes.
func (s *Socket) Close(code websocket.StatusCode, reason string) {
	select {
	case s.closing <- closing{code, reason}:
	default: // something else ends it already
	}
}

// Serve upgrades a request that the Guard has let pass, and serves the client until
// either side ends the connection. open returns the handler of its messages.
func (s *Connections) Serve(w http.ResponseWriter, r *http.Request, cfg SocketConfig, open func(*Socket) Connection) {
	if err := offers(r.Header, cfg); err != nil {
		RefuseProblem(w, err)
		return
	}
	if !s.enterSocket() {
		full := fault.New(fault.Overloaded, "this edge takes no more connections; connect again shortly")
		full.RetryAfter = time.Second
		RefuseProblem(w, full)
		return
	}
	defer s.leaveSocket()
	socket := &Socket{closing: make(chan closing, 1)}
	socket.queue = newQueue(socket.write)
	tooLong := func() {
		socket.Close(websocket.StatusMessageTooBig, fmt.Sprintf("a message has at most %d bytes", cfg.Limit))
	}
	conn, err := websocket.Accept(limited{w, uint64(cfg.Limit), tooLong, socket.alive}, r, &websocket.AcceptOptions{
		Subprotocols:       cfg.Protocols,
		InsecureSkipVerify: true, // the Guard has checked the origin
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     socket.pinged,
	})
	if err != nil {
		return // answered
	}
	conn.SetReadLimit(int64(cfg.Limit))
	socket.conn, socket.Protocol = conn, conn.Subprotocol()
	ctx, cancel := context.WithCancel(s.ctx)
	connection := open(socket)
	var beside conc.WaitGroup
	messages, gone := make(chan []byte), make(chan struct{})
	beside.Go(func() {
		defer close(gone)
		socket.read(ctx, messages)
	})
	beside.Go(func() { socket.watch(ctx) })
	end := socket.serve(ctx, connection, cfg, s.ctx.Done(), messages, gone, &beside)
	cancel() // calls end with their client
	socket.End()
	<-socket.done
	if end.code != 0 {
		_ = conn.Close(end.code, end.reason)
	}
	_ = conn.CloseNow()
	connection.Wait()
	beside.Wait()
}

func offers(h http.Header, cfg SocketConfig) error {
	offered := strings.Join(h["Sec-Websocket-Protocol"], ",")
	if offered == "" && !cfg.MustOffer {
		return nil
	}
	for p := range strings.SplitSeq(offered, ",") {
		if slices.Contains(cfg.Protocols, strings.TrimSpace(p)) {
			return nil
		}
	}
	return fault.New(fault.InvalidRequest, "offer a subprotocol in Sec-WebSocket-Protocol; those here are %s", strings.Join(cfg.Protocols, ", "))
}

// serve passes messages on until the connection has to end, and returns how; the code is
// zero if the connection is gone.
func (s *Socket) serve(ctx context.Context, c Connection, cfg SocketConfig, abort <-chan struct{}, messages <-chan []byte, gone <-chan struct{}, beside *conc.WaitGroup) closing {
	idle, stopping := make(chan struct{}), cfg.Closing
	restart := closing{closeRestart, "this edge is stopping; connect again"}
	for {
		select {
		case m := <-messages:
			c.Receive(ctx, m)
		case <-stopping:
			// Requests in flight are finished first, and their questions to the client
			// can still be answered.
			stopping = nil
			c.Drain()
			beside.Go(func() {
				c.Wait()
				close(idle)
			})
		case <-cfg.Ended:
			return closing{CloseUnauthorized, "the credentials do not hold any more"}
		case <-idle:
			return restart
		case <-abort:
			return restart
		case end := <-s.closing:
			return end
		case <-gone:
			select {
			case end := <-s.closing: // the last end that the reader met
				return end
			default:
				return closing{}
			}
		}
	}
}

// read reads messages until the connection ends.
func (s *Socket) read(ctx context.Context, messages chan<- []byte) {
	for {
		kind, in, err := s.conn.Reader(context.Background())
		if err != nil {
			return
		}
		// A message of the client may take as long as one of ours. Fragments without an
		// end are not a message either.
		slow := time.AfterFunc(writeTime, func() { s.Close(websocket.StatusPolicyViolation, "a message must be sent within "+writeTime.String()) })
		message, err := io.ReadAll(in)
		slow.Stop()
		switch {
		case err != nil:
			return
		case kind != websocket.MessageText:
			s.Close(websocket.StatusUnsupportedData, "messages are text")
		case !utf8.Valid(message):
			s.Close(websocket.StatusInvalidFramePayloadData, "a text message must be UTF-8")
		default:
			select {
			case messages <- message:
				s.alive()
				continue
			case <-ctx.Done():
			}
		}
		// Everything after that is ignored, but a close frame is awaited.
		for err == nil {
			_, in, err = s.conn.Reader(context.Background())
			if err == nil {
				_, err = io.Copy(io.Discard, in)
			}
		}
		return
	}
}

// write writes messages. A client that takes one too slowly counts as gone.
func (s *Socket) write(messages [][]byte, _ bool) bool {
	for _, m := range messages {
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		s.writing.Store(true)
		err := s.conn.Write(ctx, websocket.MessageText, m)
		s.alive()
		s.writing.Store(false)
		cancel()
		if err != nil {
			_ = s.conn.CloseNow()
			return false
		}
	}
	return true
}

// alive records a sign of life.
func (s *Socket) alive() { s.signs.Add(1) }

// watch regularly checks whether the client is there. A ping has to wait for our message
// before it, and its answer for the client's message before that. Both messages may be
// large, and both have a time limit of their own.
func (s *Socket) watch(ctx context.Context) {
	tick := time.NewTicker(keepAlive)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		s.pings.Store(0)
		// Longer than a write may take, so that a slow client has that time.
		before := s.signs.Load()
		// Not the stream's context: its end would break off a ping that is being written,
		// and with it the connection, before the client is told why it ends.
		answered, cancel := context.WithTimeout(context.Background(), 2*writeTime)
		err := s.conn.Ping(answered)
		cancel()
		switch {
		case err == nil, s.writing.Load(), s.signs.Load() != before:
		case errors.Is(err, context.DeadlineExceeded):
			_ = s.conn.CloseNow()
			return
		default:
			return // the client is gone; the reader knows
		}
	}
}

// pinged counts the client's pings.
func (s *Socket) pinged(context.Context, []byte) (answer bool) {
	if s.pings.Add(1) <= maxPings {
		return true
	}
	s.Close(websocket.StatusPolicyViolation, "too many pings")
	return false
}
