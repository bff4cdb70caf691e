package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/sourcegraph/conc/panics"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// run carries out a call, and remembers how it ended, in case the caller asks.
func (s *Server) run(ctx context.Context, req *busv1.Request, out *Responder) (proto.Message, *fault.Error) {
	known := func(body proto.Message, f *fault.Error) {
		for _, k := range s.known(req) {
			k.end(req.Id, body, f)
		}
	}
	returned := false
	defer func() {
		if !returned { // by runtime.Goexit, after which only deferred functions run
			s.log(req).ErrorContext(ctx, "handler ended its goroutine with runtime.Goexit")
			s.served.Add(1)
			s.failed.Add(1)
			f := s.broken(req)
			ended(ctx, nil, f)
			known(nil, f)
			out.fail(f)
		}
	}()
	body, f := s.invoke(ctx, req, func() (proto.Message, error) { return s.cfg.Handler(ctx, req, out) })
	returned = true
	known(body, f)
	return body, f
}

// invoke runs a handler and turns every end, such as a panic, into a body or fault for the caller.
func (s *Server) invoke(ctx context.Context, req *busv1.Request, handle func() (proto.Message, error)) (proto.Message, *fault.Error) {
	begun := time.Now()
	body, f := s.handled(ctx, req, handle)
	took := time.Since(begun)
	s.took.Add(int64(took))
	s.durations.add(took)
	s.tools.add(req, f, took)
	ended(ctx, body, f)
	if s.cfg.Observe != nil {
		s.cfg.Observe(ctx, req, body, f, took)
	}
	return body, f
}

func (s *Server) handled(ctx context.Context, req *busv1.Request, handle func() (proto.Message, error)) (proto.Message, *fault.Error) {
	var body proto.Message
	var err error
	if caught := panics.Try(func() { body, err = handle() }); caught != nil {
		s.log(req).ErrorContext(ctx, "handler panicked", "panic", s.logged(caught.Value), "stack", stack(caught.Callers))
		err = s.broken(req)
	}
	s.served.Add(1)
	if err == nil {
		return body, nil
	}
	s.failed.Add(1)
	var f *fault.Error
	switch {
	case errors.As(err, &f):
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		f = wire.TimedOut(s.cfg.Service)
	case ctx.Err() != nil:
		f = fault.New(fault.Cancelled, "the call was stopped: its caller gave up, its time was over, or service %s is stopping", s.cfg.Service)
	default:
		s.log(req).ErrorContext(ctx, "handler failed", "error", s.logged(err))
		f = s.broken(req)
		if !effective(req.Method) {
			f = f.Ran(fault.No)
		}
	}
	return nil, f
}

// log is the logger for a failed request whose caller is not told the reason.
func (s *Server) log(req *busv1.Request) *slog.Logger {
	if s.cfg.Logger != nil {
		return s.cfg.Logger(req)
	}
	return s.conn.log.With("service", s.cfg.Service, "method", req.Method, "name", req.Name, "call", req.Id)
}

// broken is the fault for the caller if only the log has the reason of a failure.
func (s *Server) broken(req *busv1.Request) *fault.Error {
	return fault.New(fault.Internal, "service %s failed on this call; its log names call %s", s.cfg.Service, req.Id)
}

// maxLogged bounds the text of a panic or an error in the log, in bytes. A record with such a text
// and a stack of maxFrames still fits the records that operators follow.
const maxLogged = 2 << 10

// logged is the text of a handler's error or panic value, without secrets, cut to maxLogged. It is
// cleaned together with as much text after the cut, so that no half secret remains.
func (s *Server) logged(v any) string {
	text := fmt.Sprintf("%+v", v) // with the names of fields, by which secrets are known
	size := len(text)
	text = text[:min(size, 2*maxLogged)]
	if s.cfg.Clean != nil {
		text = s.cfg.Clean(text)
	}
	if size <= 2*maxLogged && len(text) <= maxLogged {
		return text
	}
	return strings.ToValidUTF8(text[:min(len(text), maxLogged)], "") + fmt.Sprintf("… (%d bytes)", size)
}

// maxFrames bounds a stack: a handler that calls itself without end has millions.
const maxFrames = 32

// stack lists the functions between a panic and the server that recovered from it, the
// innermost first, each with its file and line.
func stack(callers []uintptr) (all []string) {
	frames := runtime.CallersFrames(callers)
	raised := false // functions before the first one of the runtime are those that recovered
	for {
		f, more := frames.Next()
		switch {
		case strings.HasPrefix(f.Function, "runtime."):
			raised = true
		case strings.Contains(f.Function, "libs/bus.(*Server)."), len(all) == maxFrames:
			return all
		case raised:
			all = append(all, fmt.Sprintf("%s (%s:%d)", f.Function, f.File, f.Line))
		}
		if !more {
			return all
		}
	}
}

// effective reports whether a method may have an effect, so that it matters whether a failed
// handler had begun.
func effective(method string) bool {
	switch method {
	case mcp.MethodPromptsGet, mcp.MethodPromptsList, mcp.MethodResourcesRead, mcp.MethodResourcesList, mcp.MethodComplete:
		return false
	}
	return true
}
