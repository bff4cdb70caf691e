package lifecycle

import (
	"io"
	"log/slog"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// logHandler writes a log, a line a record, whatever texts of others are in it.
func logHandler(w io.Writer, level slog.Level, asJSON bool) slog.Handler {
	options := &slog.HandlerOptions{Level: level}
	if asJSON {
		return slog.NewJSONHandler(oneLine{w}, options)
	}
	return slog.NewTextHandler(oneLine{w}, options)
}

// oneLine writes records with an escape for each character that is not seen, or steers who
// shows it: JSON itself asks for that below U+0020 alone, and slog's text has a DEL as it
// is. In JSON such characters are in strings and nowhere else.
type oneLine struct{ w io.Writer }

func (u oneLine) Write(line []byte) (int, error) {
	var b []byte
	kept := 0 // of line, in b
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
