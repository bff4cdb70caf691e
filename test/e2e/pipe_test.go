package e2e

import (
	"bufio"
	"fmt"
	"io"
	"testing"
	"time"
)

// pipe is a "busbar stdio" with a test on its standard streams. Everything it
// writes must be JSON-RPC.
type pipe struct {
	*process
	lines chan message
	// kept are messages that a test was not waiting for yet.
	kept []message
	next int
}

// answerTime is how long a test waits for one message.
const answerTime = time.Minute

func startPipe(t testing.TB, args ...string) *pipe {
	t.Helper()
	return startPipeWith(t, nil, args...)
}

// startPipeWith has more in the environment.
func startPipeWith(t testing.TB, env []string, args ...string) *pipe {
	t.Helper()
	p := &pipe{process: startWith(t, env, "busbar", append([]string{"stdio"}, args...)...), lines: make(chan message, 4096)}
	p.drained = make(chan struct{})
	go func() {
		defer close(p.drained)
		defer close(p.lines)
		s := bufio.NewScanner(p.stdout)
		s.Buffer(nil, 32<<20)
		for s.Scan() {
			m, err := parseMessage([]byte(s.Text()))
			if err != nil {
				fmt.Fprintln(&p.extra, err) // fails the test at its end
				continue
			}
			p.lines <- m
		}
	}()
	return p
}

func (p *pipe) write(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatalf("write to stdio: %v", err)
	}
}

// await returns the next message that fits and keeps the others.
func (p *pipe) await(what string, fits func(message) bool) message {
	p.t.Helper()
	m, err := p.tryAwait(answerTime, fits)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", what, err, p.stderr.String())
	}
	return m
}

func (p *pipe) tryAwait(within time.Duration, fits func(message) bool) (message, error) {
	for i, m := range p.kept {
		if fits(m) {
			p.kept = append(p.kept[:i:i], p.kept[i+1:]...)
			return m, nil
		}
	}
	deadline := time.After(within)
	for {
		select {
		case m, more := <-p.lines:
			if !more {
				return message{}, io.ErrUnexpectedEOF
			}
			if fits(m) {
				return m, nil
			}
			p.kept = append(p.kept, m)
		case <-deadline:
			return message{}, fmt.Errorf("no answer in %v", within)
		}
	}
}

// response is the answer to the request with that id, as written.
func response(id string) func(message) bool {
	return func(m message) bool { return m.Method == "" && string(m.ID) == id }
}

// call sends a request and returns its response; params is a JSON object.
func (p *pipe) call(method, params string) message {
	p.t.Helper()
	p.next++
	id := fmt.Sprint(p.next)
	p.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return p.await(method, response(id))
}

// tryCall is call that reports what goes wrong, with the time it took.
func (p *pipe) tryCall(within time.Duration, method, params string) (message, error) {
	p.next++
	id := fmt.Sprint(p.next)
	if _, err := fmt.Fprintf(p.stdin, `{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		return message{}, err
	}
	m, err := p.tryAwait(within, response(id))
	if err == nil && m.Error != nil {
		err = m.Error
	}
	return m, err
}

// initialize makes the pipe a legacy session.
func (p *pipe) initialize(version string) message {
	p.t.Helper()
	m := p.call("initialize", fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}`, version))
	p.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}
