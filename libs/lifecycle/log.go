package lifecycle

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// logHandler writes a log with one line for each record, whatever foreign texts it contains.
// For a person at a terminal, the stack of a record follows below it.
func logHandler(w io.Writer, level slog.Level, asJSON, person bool) slog.Handler {
	w = oneLine{w}
	options := &slog.HandlerOptions{Level: level}
	switch {
	case asJSON:
		return slog.NewJSONHandler(w, options)
	case person:
		return &below{slog.NewTextHandler(w, options), w, &sync.Mutex{}}
	}
	return slog.NewTextHandler(w, options)
}

// below writes the attribute stack of a record, a []string, below the record: one indented
// line each, so that none looks like a record.
type below struct {
	slog.Handler
	w  io.Writer
	mu *sync.Mutex
}

// Handle implements slog.Handler.
func (b *below) Handle(ctx context.Context, r slog.Record) error {
	var stack []string
	rest := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool {
		if lines, is := a.Value.Any().([]string); is && a.Key == "stack" {
			stack = append(stack, lines...)
		} else {
			rest.AddAttrs(a)
		}
		return true
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.Handler.Handle(ctx, rest); err != nil || len(stack) == 0 {
		return err
	}
	var text strings.Builder
	for _, line := range stack {
		text.WriteString("    " + strings.ReplaceAll(line, "\n", `\n`) + "\n")
	}
	_, err := io.WriteString(b.w, text.String())
	return err
}

// WithAttrs implements slog.Handler.
func (b *below) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &below{b.Handler.WithAttrs(attrs), b.w, b.mu}
}

// WithGroup implements slog.Handler.
func (b *below) WithGroup(name string) slog.Handler {
	return &below{b.Handler.WithGroup(name), b.w, b.mu}
}

// oneLine escapes every character that is invisible or controls a display. JSON itself
// requires that only below U+0020, and slog's text leaves DEL unchanged. In JSON such
// characters occur only in strings.
type oneLine struct{ w io.Writer }

func (u oneLine) Write(line []byte) (int, error) {
	var b []byte
	kept := 0 // bytes of line already in b
	for i := 0; i < len(line); {
		r, size := rune(line[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(line[i:])
		}
		if r != '\n' && !unicode.IsPrint(r) {
			b = append(b, line[kept:i]...)
			b, kept = escape(b, r), i+size
		}
		i += size
	}
	if kept == 0 {
		return u.w.Write(line)
	}
	if _, err := u.w.Write(append(b, line[kept:]...)); err != nil {
		return 0, err
	}
	return len(line), nil
}

func escape(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	unit := func(u rune) {
		b = append(b, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
	}
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		unit(high)
		unit(low)
		return b
	}
	unit(r)
	return b
}
