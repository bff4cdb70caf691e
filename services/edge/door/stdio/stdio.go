// Package stdio is the door of clients that start the server as their child: one JSON-RPC
// message per line on standard input and output, in legacy and modern versions of the
// protocol. Start with Door.Run.
package stdio

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// Config configures the door.
type Config struct {
	Server *protocol.Server
	In     io.Reader
	Out    io.Writer
	// Limits of one message; zero fields mean mcp.DefaultLimits.
	Limits mcp.Limits
	// Credentials are the credentials of the client, which started this process.
	Credentials gateway.Credentials
	// Grace is how long calls in flight may go on after the input ends. Default 1.5 s:
	// clients wait about two seconds before they kill the process.
	Grace time.Duration
}

// Door serves one client.
type Door struct {
	cfg        Config
	connection *protocol.Connection

	// output is held while a message is written. It is a channel, because a waiting
	// writer must also learn of broken.
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
	d := &Door{cfg: cfg, output: make(chan struct{}, 1)}
	d.broken, d.fail = context.WithCancelCause(context.Background())
	return d
}

// Run answers messages until the input or ctx ends, and then finishes the calls in
// flight. It answers a malformed line with an error, and continues. Run returns the error
// of the output, if there was one. A read of the input, and a write that the client does
// not take, may outlive it.
func (d *Door) Run(ctx context.Context) error {
	lease, err := d.cfg.Server.Lease(context.WithoutCancel(ctx), "stdio", d.cfg.Credentials)
	if err != nil {
		return err
	}
	defer lease.Close()
	d.connection = protocol.NewConnection(protocol.ConnectionConfig{Server: d.cfg.Server, Out: d, Door: "stdio", Limits: d.cfg.Limits, Modern: true, Lease: lease})
	calls, abort := context.WithCancel(context.WithoutCancel(ctx))
	defer abort()
	lines := make(chan line)
	go d.read(calls, lines)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve(calls, reading, lines)
		stop()
		d.connection.Wait()
	}()
	select {
	case <-reading.Done():
	case <-d.broken.Done():
	}
	stop()
	// Streams end now, with their results. Calls get their grace, and then a moment to
	// say that they were cancelled.
	d.cfg.Server.Close()
	grace := time.AfterFunc(d.cfg.Grace, abort)
	defer grace.Stop()
	stuck := time.AfterFunc(d.cfg.Grace+lastWrite, func() { d.fail(errStuck) })
	defer stuck.Stop()
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
	// long is set for a line over the limit, whose text is discarded.
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
				break // the last line has no newline; reading again returns the end
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
	switch {
	case l.long:
		d.connection.Refuse(fault.New(fault.TooLarge, "a line is longer than %d bytes", d.cfg.Limits.Bytes))
	case len(bytes.TrimSpace(l.text)) > 0:
		d.connection.Receive(ctx, l.text)
	}
}

// Notify implements protocol.Sender: it drops nothing, because there is no other reader.
func (d *Door) Notify(message []byte) { d.Send(message) }

// Send implements protocol.Sender: all messages share the one output.
func (d *Door) Send(message []byte) bool {
	select {
	case d.output <- struct{}{}:
	case <-d.broken.Done():
		return false
	}
	defer func() { <-d.output }()
	if d.broken.Err() != nil {
		return false
	}
	if _, err := d.cfg.Out.Write(append(message, '\n')); err != nil {
		d.fail(err)
		return false
	}
	return true
}
