package segment

import (
	"strings"
	"unicode"
)

// maxRun is the longest run of characters that are not letters, digits or sentence ends; the rest of a
// longer run is masked.
const maxRun = 16

// mask replaces the far end of long runs of spaces, brackets and the like by inert characters of the same
// length in bytes. Without that, such a run would cost the square of its length: rule SB8 of UAX #29 looks
// ahead from every space and bracket after a full stop. Offsets do not change; only a boundary inside the
// run can move.
func mask(text string) string {
	run := 0
	long := strings.IndexFunc(text, func(r rune) bool {
		run = runLen(run, r)
		return run > maxRun
	})
	if long < 0 {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	run = 0
	for _, r := range text {
		if run = runLen(run, r); run <= maxRun {
			b.WriteRune(r)
			continue
		}
		switch {
		case r < 0x80:
			b.WriteByte('*')
		case r < 0x800:
			b.WriteRune('§')
		case r < 0x10000:
			b.WriteRune('※')
		default:
			b.WriteRune('🙂')
		}
	}
	return b.String()
}

// runLen returns the length of the run including r.
func runLen(run int, r rune) int {
	if unicode.IsLetter(r) || unicode.IsNumber(r) {
		return 0
	}
	switch r {
	case '.', '!', '?', '。', '！', '？', '\n', '\r', '\v', '\f', '\u0085', '\u2028', '\u2029':
		return 0
	}
	return run + 1
}
