package edge

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"
)

// watched is how long a request for /readyz counts as a sign that somebody looks after
// the edge, such as a balancer or an orchestrator.
//
//limit:process a stopping edge takes no requests if nobody asked for `/readyz` within
const watched = 30 * time.Second

// leaving is the end of an edge that gets its requests from others. They need a moment to
// learn that it is about to stop; meanwhile it serves requests as before.
type leaving struct {
	asked   atomic.Int64 // when somebody last asked
	leaving atomic.Bool
}

// look is the check of /readyz.
func (l *leaving) look() (string, error) {
	l.asked.Store(time.Now().UnixNano())
	if l.leaving.Load() {
		return "", errors.New("this edge is about to stop: send new requests to another one")
	}
	return "new requests are taken", nil
}

// linger returns a context that ends when ctx does, or up to d later if somebody has to
// learn of it first.
func (l *leaving) linger(ctx context.Context, d time.Duration) (context.Context, func()) {
	lingering, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		l.leaving.Store(true)
		if since := time.Since(time.Unix(0, l.asked.Load())); d > 0 && since < watched {
			select {
			case <-time.After(d):
			case <-lingering.Done():
			}
		}
		end()
	})
	return lingering, func() { stop(); end() }
}

// parting makes clients and proxies come back over a new connection, which leads to
// another edge.
func (l *leaving) parting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l.leaving.Load() {
			w.Header().Set("Connection", "close") // over HTTP/2 this is GOAWAY
		}
		next.ServeHTTP(w, r)
	})
}
