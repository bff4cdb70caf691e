package access

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// pollTime is how often the file is read. A change counts once it was seen twice, so that
// a file which is still being written is not read in part.
const pollTime = 400 * time.Millisecond

// Live is the policy of a file, which is read again when the file changes. While the file
// is broken or missing, the last good policy stays in force. It is a gateway.Access.
type Live struct {
	path string
	log  *slog.Logger
	now  atomic.Pointer[Policy]
	// broken is the time since which the file differs from the policy in force; nil if it
	// does not.
	broken atomic.Pointer[time.Time]

	mu      sync.Mutex
	changed map[*func()]struct{}
	prepare func(*Policy) error

	challenge atomic.Pointer[func(scopes ...string) gateway.Challenge]

	logged logged
	stop   chan struct{}
	done   sync.WaitGroup
	// text is the last text that was read as a policy, seen the last text of the file.
	text, seen []byte
}

// Open reads a policy file, which has to be valid, and watches it until Close.
func Open(path string, log *slog.Logger) (*Live, error) {
	p, text, err := read(path)
	if err != nil {
		return nil, err
	}
	l := &Live{path: path, log: log, stop: make(chan struct{}), changed: map[*func()]struct{}{}, text: text, seen: text}
	l.now.Store(p)
	l.done.Go(l.watch)
	return l, nil
}

// ReadPolicy reads the policy of a file, once.
func ReadPolicy(path string) (*Policy, error) {
	p, _, err := read(path)
	return p, err
}

func read(path string) (*Policy, []byte, error) {
	text, err := Read(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := Parse(text)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, text, nil
}

// Read reads the text of a policy file.
func Read(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for a pipe that nobody writes to
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch about, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !about.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file: it cannot be read again when it changes", path)
	}
	// Parse refuses a longer file.
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// Now is the policy in force.
func (l *Live) Now() *Policy { return l.now.Load() }

// OnChange makes f run when another policy has come into force, until stop is called. f
// must not block.
func (l *Live) OnChange(f func()) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed[&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.changed, &f)
	}
}

// Prepare makes f run with each policy before it comes into force. If f returns an error,
// the policy does not come into force, as if its file were broken, and f is tried again
// until it succeeds.
func (l *Live) Prepare(f func(next *Policy) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prepare = f
}

// ready prepares everything that depends on a policy.
func (l *Live) ready(p *Policy) error {
	l.mu.Lock()
	f := l.prepare
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(p)
}

// ChallengeBy sets the function whose challenge tells a caller without a required scope
// how to get it.
func (l *Live) ChallengeBy(f func(scopes ...string) gateway.Challenge) { l.challenge.Store(&f) }

// Close ends the watch.
func (l *Live) Close() {
	close(l.stop)
	l.done.Wait()
}

// Broken is the time since which the file differs from the policy in force; zero if it
// does not.
func (l *Live) Broken() time.Time {
	if t := l.broken.Load(); t != nil {
		return *t
	}
	return time.Time{}
}

func (l *Live) watch() {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-tick.C:
			l.look()
		}
	}
}

// look reads the file. A file that cannot be read counts as a change too.
func (l *Live) look() {
	text, err := Read(l.path)
	if err != nil {
		text = []byte("\x00" + err.Error())
	}
	stable := bytes.Equal(text, l.seen)
	l.seen = text
	if !stable || bytes.Equal(text, l.text) {
		return
	}
	l.text = text
	var p *Policy
	if err == nil {
		p, err = Parse(text)
	}
	if err == nil {
		if err = l.ready(p); err != nil {
			l.text = nil // try again: the cause may lie outside the file
			if !l.Broken().IsZero() {
				return
			}
		}
	}
	if err != nil {
		if now := time.Now(); l.Broken().IsZero() {
			l.broken.Store(&now)
		}
		l.log.Error("the policy file is broken: the last good policy stays in force", "file", l.path, "error", err, "policy", l.Now().Digest()[:12])
		return
	}
	old := l.now.Swap(p)
	l.broken.Store(nil)
	if old.Digest() != p.Digest() {
		l.log.Warn("the policy has changed", "file", l.path, "policy", p.Digest()[:12], "before", old.Digest()[:12])
		l.mu.Lock()
		defer l.mu.Unlock()
		for f := range l.changed {
			(*f)()
		}
	}
}

// logged limits the log lines that clients can cause to one a second.
type logged struct{ last atomic.Int64 }

func (l *logged) now() bool {
	now, last := time.Now().Unix(), l.last.Load()
	return now != last && l.last.CompareAndSwap(last, now)
}
