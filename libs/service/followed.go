package service

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus/logs"
	"github.com/busbar-mcp/busbar/libs/redact"
)

// of describes the call for operators who follow the logs.
func (c *Call) of() logs.Of {
	return logs.Of{Call: c.ID(), Method: c.req.Method, Name: c.req.Name, Principal: c.Principal(), Tenant: c.Tenant()}
}

// withoutSecrets returns the logged data as it may leave the instance: cut to limit bytes and
// without secrets.
func withoutSecrets(data []byte, limit int) (clean []byte, cut bool) {
	clean, note := redact.JSON(data, limit)
	if note == redact.Unreadable { // a logger may be given one name twice
		clean, note = redact.JSON(numbered(data), limit)
	}
	return clean, note != ""
}

// numbered makes the names of each JSON object unique: the second "n" becomes "n#2".
func numbered(data []byte) []byte {
	var b bytes.Buffer
	in, out := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true)), jsontext.NewEncoder(&b)
	for {
		token, err := in.ReadToken()
		if err != nil { // the end, or invalid JSON
			return b.Bytes()
		}
		err = out.WriteToken(token)
		for n := 2; errors.Is(err, jsontext.ErrDuplicateName); n++ {
			err = out.WriteToken(jsontext.String(token.String() + "#" + strconv.Itoa(n)))
		}
		if err != nil {
			return nil
		}
	}
}

// followed is the log handler of a call. It writes to the service's own log and to operators who
// follow it.
type followed struct {
	own  slog.Handler
	call *Call
	// with applies the attributes and groups that the handler was given.
	with []func(slog.Handler) slog.Handler
}

// wire converts a level of slog to a level of the bus.
func wire(l slog.Level) int {
	switch {
	case l >= slog.LevelError:
		return int(levels["error"])
	case l >= slog.LevelWarn:
		return int(levels["warning"])
	case l >= slog.LevelInfo:
		return int(levels["info"])
	}
	return int(levels["debug"])
}

// Enabled implements slog.Handler.
func (f *followed) Enabled(ctx context.Context, l slog.Level) bool {
	return f.own.Enabled(ctx, l) || f.call.instance.tap.Wants(wire(l))
}

// Handle implements slog.Handler.
func (f *followed) Handle(ctx context.Context, r slog.Record) error {
	if level := wire(r.Level); f.call.instance.tap.Wants(level) {
		f.tell(ctx, level, r)
	}
	if !f.own.Enabled(ctx, r.Level) {
		return nil
	}
	return f.own.Handle(ctx, r)
}

// tell is a function of its own, so that a record is copied to the heap only if somebody follows.
func (f *followed) tell(ctx context.Context, level int, r slog.Record) {
	f.call.instance.tap.Say(f.call.of(), level, false, "", func() []byte { return f.json(ctx, r) })
}

// json encodes a record with the attributes of the handler; nil if it cannot be encoded.
func (f *followed) json(ctx context.Context, r slog.Record) []byte {
	var data bytes.Buffer
	var h slog.Handler = slog.NewJSONHandler(&data, &slog.HandlerOptions{Level: slog.Level(math.MinInt), ReplaceAttr: onlyOwn})
	for _, with := range f.with {
		h = with(h)
	}
	r.Time = time.Time{} // a followed record has a field for it
	if h.Handle(ctx, r) != nil {
		return nil
	}
	return data.Bytes()
}

// onlyOwn leaves out the record's level, for which a followed record has a field too. An attribute
// named level stays.
func onlyOwn(groups []string, a slog.Attr) slog.Attr {
	if _, its := a.Value.Any().(slog.Level); its && len(groups) == 0 && a.Key == slog.LevelKey {
		return slog.Attr{}
	}
	return a
}

// WithAttrs implements slog.Handler.
func (f *followed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return f.and(func(h slog.Handler) slog.Handler { return h.WithAttrs(attrs) })
}

// WithGroup implements slog.Handler.
func (f *followed) WithGroup(name string) slog.Handler {
	return f.and(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}

func (f *followed) and(with func(slog.Handler) slog.Handler) slog.Handler {
	return &followed{with(f.own), f.call, append(slices.Clip(f.with), with)}
}
