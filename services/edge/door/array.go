package door

import (
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
)

// piece is the number of bytes that are written within the time of one write.
const piece = 64 << 10

// paced gives each piece its own time, so that a client which keeps reading is not cut
// off for reading much.
type paced struct {
	w       io.Writer
	control timed
}

// Paced writes an answer piece by piece; each piece has the time of one write.
func Paced(w http.ResponseWriter) io.Writer { return paced{w, http.NewResponseController(w)} }

// Write implements io.Writer.
func (p paced) Write(b []byte) (n int, err error) {
	for {
		TimeWrite(p.control)
		done, err := p.w.Write(b[:min(piece, len(b))])
		n += done
		if b = b[done:]; err != nil || len(b) == 0 {
			return n, err
		}
	}
}

// Array is an answer that is a JSON value with an array as its last member. Its elements
// are written one by one, and none is kept.
type Array struct {
	out      paced
	before   string
	after    string
	failed   error
	elements int
}

// NewArray begins an answer with status 200. before and after are the text around the
// elements.
func NewArray(w http.ResponseWriter, before, after string) *Array {
	w.Header().Set("Content-Type", "application/json")
	return &Array{out: paced{w, http.NewResponseController(w)}, before: before, after: after}
}

// Add writes an element. It reports false if the client is gone.
func (a *Array) Add(v any) bool {
	separator := ","
	if a.elements == 0 {
		separator = a.before
	}
	a.elements++
	if a.failed == nil {
		_, a.failed = io.WriteString(a.out, separator)
	}
	if a.failed == nil {
		a.failed = json.MarshalWrite(a.out, v, json.Deterministic(true))
	}
	return a.failed == nil
}

// End ends the answer.
func (a *Array) End() {
	if a.elements == 0 {
		_, a.failed = io.WriteString(a.out, a.before)
	}
	if a.failed == nil {
		_, _ = io.WriteString(a.out, a.after)
	}
}
