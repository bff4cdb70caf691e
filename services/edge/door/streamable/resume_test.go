package streamable_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// comeback is a client of two edges that comes back to its call's stream.
type comeback struct {
	*edgetest.World
	t        *testing.T
	one, two *edgetest.Edge
	h        header
	tool     string
	s        *edgetest.Stream
	asked    edgetest.Message // the question that is open
	step     int              // of the tool's progress
	from     string           // the event after which it last came back
}

func newComeback(t *testing.T, version, tool string) *comeback {
	t.Helper()
	c := &comeback{World: edgetest.Start(t), t: t, tool: tool}
	c.one, c.two = c.Edge, c.Join(t)
	c.h = c.Initialize(t, version, elicits)
	return c
}

// begin calls the tool at an edge.
func (c *comeback) begin(at *edgetest.Edge, h header) *edgetest.Stream {
	c.t.Helper()
	return at.Open(c.t, h, edgetest.Legacy("7", mcp.MethodToolsCall, `"name":"`+c.tool+`","arguments":{},"_meta":{"progressToken":"p"}`))
}

// reply answers a question at an edge.
func (c *comeback) reply(at *edgetest.Edge, q edgetest.Message, rest string) {
	c.t.Helper()
	if r := at.Post(c.t, c.h, `{"jsonrpc":"2.0","id":`+string(q.ID)+`,`+rest+`}`); r.StatusCode != http.StatusAccepted {
		c.t.Fatalf("answer: %d %s", r.StatusCode, r.Bytes)
	}
}

// do does one thing of a script.
func (c *comeback) do(what string) {
	c.t.Helper()
	switch what {
	case "begin":
		c.s = c.begin(c.one, c.h)
	case "step": // the tool reports progress
		edgetest.Send(c.t, "step", c.Svc.Step)
	case "progress":
		c.step++
		c.s.Progress(c.step)
	case "primed": // a first event without a message
		if e := c.s.Event(); e.ID == "" || !e.Empty || e.Retry == "" {
			c.t.Fatalf("priming event: %+v", e)
		}
	case "first message": // without such an event
		if e := c.s.Event(); e.Empty || e.ID == "" || e.Method != mcp.NotifyProgress {
			c.t.Errorf("first event: %+v", e)
		}
		c.step++
	case "hang up":
		c.s.Close()
	case "kill":
		c.one.Kill()
		c.s.Ends()
	case "close":
		c.one.Server().Close()
		c.s.Ends()
	case "to another", "to the same":
		c.from = c.s.ID
		c.s = map[bool]*edgetest.Edge{true: c.two, false: c.one}[what == "to another"].Get(c.t, c.h, c.from)
	case "leave": // the tool lets go of the connection
		edgetest.Send(c.t, "leave", c.Svc.Leave)
	case "will leave":
		go func() { c.Svc.Leave <- struct{}{} }()
	case "left":
		if e := c.s.Event(); e.Retry != "20" {
			c.t.Errorf("before the end: %+v", e)
		}
		c.s.Ends()
	case "ends":
		c.s.Ends()
	case "question", "same question", "new question":
		before := c.asked
		if c.asked = c.s.Await(); c.asked.Method != mcp.MethodElicit || what != "question" && (string(c.asked.ID) == string(before.ID)) != (what == "same question") {
			c.t.Fatalf("asked %+v, before %+v", c.asked, before)
		}
	case "answer":
		c.reply(c.two, c.asked, `"result":{"action":"accept","content":{}}`)
	case "approve":
		if !strings.Contains(c.asked.Param("message"), "Let "+c.tool) {
			c.t.Fatalf("asked %s", c.asked.Params)
		}
		c.reply(c.two, c.asked, `"result":{"action":"accept","content":{"approve":true}}`)
	case "release":
		edgetest.Send(c.t, "release", c.Svc.Release)
	default:
		c.s.Result("7", what)
		if n := c.Svc.Calls.Load(); n != 1 && (c.tool == "steps" || c.tool == "approved") {
			c.t.Errorf("the tool ran %d times", n)
		}
	}
}

// A client comes back for its answer, at another edge or the same one, after its
// connection, its edge or both are gone. In a script the tool's last words are its result.
func TestResume(t *testing.T) {
	t.Parallel()
	const killed = "step step begin progress progress kill step step to_another progress progress step progress release released"
	for name, c := range map[string]struct{ version, tool, script string }{
		"the edge is killed under 2025-03-26":                         {mcp.V20250326, "steps", killed},
		"the edge is killed under 2025-06-18":                         {mcp.V20250618, "steps", killed},
		"the edge is killed under 2025-11-25":                         {mcp.V20251125, "steps", killed},
		"the connection breaks twice, to another edge":                {mcp.V20251125, "steps", "begin step progress hang_up step to_another progress hang_up step to_another progress release released"},
		"the connection breaks twice, to the same edge":               {mcp.V20251125, "steps", "begin step progress hang_up step to_the_same progress hang_up step to_the_same progress release released"},
		"the client is primed before anything happens":                {mcp.V20251125, "steps", "begin primed kill to_another release released"},
		"the connection breaks again before anything comes":           {mcp.V20251125, "steps", "begin step progress hang_up to_another primed hang_up to_the_same release released"},
		"a client before 2025-11-25 gets no empty event":              {mcp.V20250618, "steps", "step begin first_message hang_up to_the_same release released"},
		"a question is missed, its edge lives":                        {mcp.V20251125, "ask", "begin primed question hang_up to_another answer accept"},
		"a question is open when its edge is killed":                  {mcp.V20251125, "remember", "begin question kill to_another new_question answer kept_secret"},
		"a tool lets go of the connection":                            {mcp.V20251125, "steps", "step begin progress leave left to_another release released"},
		"a tool lets go of the connection first":                      {mcp.V20251125, "steps", "will_leave begin primed ends to_another release released"},
		"a tool cannot let go of a client that does not expect it":    {mcp.V20250618, "steps", "step begin progress leave release released"},
		"an edge that closes lets its clients go":                     {mcp.V20251125, "steps", "begin step progress close to_another release released"},
		"M2 a held call, the connection breaks, to another edge":      {mcp.V20251125, "approved", "begin primed question hang_up to_another approve done"},
		"M2 a held call, the connection breaks, to the same edge":     {mcp.V20251125, "approved", "begin primed question hang_up to_the_same approve done"},
		"M2 a held call, the edge is killed":                          {mcp.V20251125, "approved", "begin primed question kill to_another new_question approve done"},
		"M2 the tool asks what was agreed to, and the edge is killed": {mcp.V20251125, "remember_approved", "begin primed question approve question kill to_another question answer kept_secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newComeback(t, c.version, c.tool)
			for _, what := range strings.Fields(c.script) {
				if w.do(strings.ReplaceAll(what, "_", " ")); t.Failed() {
					t.Fatalf("at %s of %s", what, c.script)
				}
			}
		})
	}
}

// M2: a client that comes back to before a question hears it again, with the same id, for
// its tool or for an approval.
func TestResumeBeforeTheQuestion(t *testing.T) {
	t.Parallel()
	for tool, agree := range map[string]string{"ask": "answer", "approved": "approve"} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			c := newComeback(t, mcp.V20251125, tool)
			c.do("begin")
			c.do("primed")
			primed := c.s.ID
			c.do("question")
			c.do("hang up")
			c.s = c.two.Get(t, c.h, primed)
			c.do("same question")
			c.do(agree)
			if m := c.s.Await(); m.Text() != "accept" && m.Text() != "done" {
				t.Errorf("%+v", m)
			}
		})
	}
}

func TestResumeOfOthers(t *testing.T) {
	t.Parallel()
	t.Run("all of it is there for as long as it is kept", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "steps")
		for _, what := range []string{"begin", "step", "progress", "hang up", "step", "to the same", "progress", "release", "released"} {
			c.do(what)
		}
		all := c.two.Get(t, c.h, c.from)
		all.Progress(2)
		all.Result("7", "released")
	})
	t.Run("a fast answer is plain JSON", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "safe")
		bustest.Eventually(t, "an answer that is no stream", func() bool { // on a busy machine some are not fast
			r := c.Post(t, c.h, edgetest.LegacyCall("1", "safe", `{}`))
			if r.Answer(t).Text() != "safe" {
				t.Fatalf("%s", r.Bytes)
			}
			return r.Header.Get("Content-Type") == "application/json"
		})
	})
	t.Run("a question is withdrawn when its edge closes", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "ask")
		c.do("begin")
		c.do("question")
		c.one.Server().Close()
		if m := c.s.Await(); m.Method != mcp.NotifyCancelled || !strings.Contains(string(m.Params), string(c.asked.ID)) {
			t.Errorf("the question is not withdrawn: %+v", m)
		}
		c.s.Ends()
	})
	t.Run("cancelled after it came back", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "steps")
		for _, what := range []string{"step", "begin", "progress", "kill", "to another"} {
			c.do(what)
		}
		bustest.Eventually(t, "the handler hears of it", func() bool {
			c.two.Post(t, c.h, edgetest.Cancel("7"))
			return len(c.Svc.Ended) > 0
		})
		c.s.Ends()
	})
	t.Run("what is not this session's", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "steps")
		c.do("begin")
		id := c.s.Event().ID
		other := c.Initialize(t, mcp.V20251125, elicits)
		for wrong, h := range map[string]header{
			id: other, strings.Repeat("A", 26) + id[26:]: c.h, "../../x": c.h, strings.Repeat("x", 4000): c.h, id[:26] + "-x-y": c.h, id[:26] + "-99999999999-1": c.h,
		} {
			if r := edgetest.Do(t, c.two.Since(t, h, wrong)); r.StatusCode != http.StatusBadRequest {
				t.Errorf("%.100s: %d %s", wrong, r.StatusCode, r.Bytes)
			}
		}
		c.do("release")
		c.do("released")
	})
	t.Run("much was missed, and is read slowly", func(t *testing.T) {
		t.Parallel()
		c := newComeback(t, mcp.V20251125, "flood")
		c.do("begin")
		c.do("progress")
		c.one.Kill()
		c.do("to another")
		const steps = 160 // 5 MB, more than the system buffers
		for i := 2; ; i++ {
			m := c.s.Await()
			if i == steps {
				c.do("release")
			}
			if m.Text() == "released" && i > steps {
				break
			}
			if m.Param("progress") != fmt.Sprint(i) {
				t.Fatalf("want progress %d, got %+v %.200s", i, m.Error, m.Result)
			}
		}
		// A client that reads nothing for as long as a write may take is cut off. On a
		// busy machine this may happen to a client that only reads slowly.
		var err error
		for range 5 {
			if err = c.slowly(steps); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// slowly reads the whole answer of a number of steps with a client that has little room.
// The error is for a client that was cut off.
func (c *comeback) slowly(steps int) error {
	slow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(256 << 10)
		}
		return conn, err
	}}}
	defer slow.CloseIdleConnections()
	resp, err := slow.Do(c.two.Since(c.t, c.h, c.from))
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	i := 1
	for e := range edgetest.Events(c.t, resp.Body) {
		<-pace.C
		switch i++; {
		case e.Empty:
			i--
		case e.Method == "" && e.Text() == "released" && i > steps:
			return nil
		case e.Param("progress") != fmt.Sprint(i):
			c.t.Fatalf("want progress %d, got %+v %.200s", i, e.Error, e.Result)
		}
	}
	return fmt.Errorf("the stream ended after progress %d", i)
}
