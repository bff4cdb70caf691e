package door

import (
	"net/http"
	"time"
)

// Multiplexed makes next answer the streams of HTTP/2. There, a deadline that passes ends
// the stream even if nothing is being written. So each write gets its own deadline, and
// the deadlines that doors set have no effect.
func Multiplexed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m := &multiplexed{w, http.NewResponseController(w)}
		_ = m.control.SetWriteDeadline(time.Time{}) // clears the server's own
		defer TimeWrite(m.control)                  // for the last bytes, which the server writes
		next.ServeHTTP(m, r)
	})
}

// multiplexed is the answer of one stream.
type multiplexed struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Unwrap is for http.ResponseController.
func (m *multiplexed) Unwrap() http.ResponseWriter { return m.ResponseWriter }

// SetWriteDeadline is for http.ResponseController.
func (m *multiplexed) SetWriteDeadline(time.Time) error { return nil }

// Write implements http.ResponseWriter.
func (m *multiplexed) Write(b []byte) (written int, err error) {
	for {
		TimeWrite(m.control)
		n, err := m.ResponseWriter.Write(b[:min(piece, len(b))])
		written += n
		if b = b[n:]; err != nil || len(b) == 0 {
			_ = m.control.SetWriteDeadline(time.Time{})
			return written, err
		}
	}
}

// FlushError is for http.ResponseController.
func (m *multiplexed) FlushError() error {
	TimeWrite(m.control)
	err := m.control.Flush()
	_ = m.control.SetWriteDeadline(time.Time{})
	return err
}
