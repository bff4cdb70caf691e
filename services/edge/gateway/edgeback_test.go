package gateway_test

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// cutter stands between one edge and NATS, and cuts the connection when the edge permits a call.
type cutter struct {
	to         string
	armed, cut atomic.Bool
	mu         sync.Mutex
	open       []net.Conn
}

func (c *cutter) sever() {
	c.cut.Store(true)
	c.mu.Lock()
	for _, n := range c.open {
		_ = n.Close()
	}
	c.open = nil
	c.mu.Unlock()
}

func (c *cutter) serve(l net.Listener) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		if c.cut.Load() {
			_ = in.Close()
			continue
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = in.Close()
			continue
		}
		c.mu.Lock()
		c.open = append(c.open, in, out)
		c.mu.Unlock()
		pipe := func(from, to net.Conn, up bool) {
			b := make([]byte, 1<<16)
			for {
				n, err := from.Read(b)
				if up && c.armed.Load() {
					if i := bytes.Index(b[:n], []byte(".permit.")); i >= 0 {
						c.armed.Store(false)
						c.sever()
						return
					}
				}
				if n > 0 {
					_, _ = to.Write(b[:n])
				}
				if err != nil {
					_ = from.Close()
					_ = to.Close()
					return
				}
			}
		}
		go pipe(in, out, true)
		go pipe(out, in, false)
	}
}

// D3: an edge loses the bus as it permits a call with a key, so the call never begins; a
// repetition at another edge runs it. The first edge comes back late, and does not touch the
// record of the second one.
func TestD3AnEdgeThatIsBackLeavesTheKeyThatAnotherTook(t *testing.T) {
	t.Parallel()
	natsURL := bustest.Server(t)
	u, err := url.Parse(natsURL)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	edgetest.Serve(t, bustest.Connect(t, natsURL), l.Service)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	c := &cutter{to: u.Host}
	go c.serve(ln)
	through := *u
	through.Host = ln.Addr().String()
	one, _ := keyEdge(t, through.String())
	two, _ := keyEdge(t, natsURL)
	c.armed.Store(true)
	ended := begin(t.Context(), one, keyed("note", `{}`, "", "k"))
	bustest.Eventually(t, "the edge is cut off", c.cut.Load)
	bustest.Eventually(t, "another edge has run it", func() bool {
		a, err := repeat(t, two, "note", `{}`, "k")
		return err == nil && a.Result != nil
	})
	t.Log("the first edge said:", <-ended)
	// If it wrote meanwhile, that came before this call.
	c.cut.Store(false)
	if _, err := repeat(t, one, "note", `{}`, "another"); err != nil {
		t.Fatal(err)
	}
	replayed(t, two, "note", `{}`, "k")
	if n := l.ran("k"); n != 1 {
		t.Errorf("ran %d times with one key", n)
	}
}

// D3: the end of a call does not overwrite the record of the call that took over its key, and
// does not remove that record.
func TestD3ACallThatLostItsKeyLeavesTheRecord(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	l := newLedger()
	edgetest.Serve(t, bustest.Connect(t, url), l.Service)
	one, _ := keyEdge(t, url)
	bucket := bustest.Connect(t, url).Bucket(bus.OutcomesBucket)
	ended := begin(t.Context(), one, keyed("note", `{"hold":true}`, "", "k"))
	<-l.started
	var at string
	var record map[string]any
	err := bucket.Each(t.Context(), "", func(key string, value []byte) {
		at = key
		if err := json.Unmarshal(value, &record); err != nil {
			t.Error(err)
		}
	})
	if err != nil || at == "" {
		t.Fatalf("no record: %v", err)
	}
	record["call"] = "ofanotheredge"
	theirs, err := json.Marshal(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.Put(t.Context(), at, theirs); err != nil {
		t.Fatal(err)
	}
	close(l.release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now, err := bucket.Get(t.Context(), at); err != nil || !bytes.Equal(now, theirs) {
		t.Errorf("the record is %s, %v, want %s", now, err, theirs)
	}
	_, revision, err := bucket.Look(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	if err := bucket.DeleteAt(t.Context(), at, revision-1); err != nil {
		t.Errorf("removing what is another's by now: %v", err)
	}
	if now, err := bucket.Get(t.Context(), at); err != nil || !bytes.Equal(now, theirs) {
		t.Errorf("the record was removed: %s, %v", now, err)
	}
	if err := bucket.DeleteAt(t.Context(), at, revision); err != nil {
		t.Error(err)
	}
	if _, err := bucket.Get(t.Context(), at); !errors.Is(err, bus.ErrNoKey) {
		t.Errorf("one's own stays: %v", err)
	}
}
