package bus_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/busbar-mcp/busbar/gen/busbar/edge/v1"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// A client's posts at any edge reach the edge that holds its stream, in order.
func TestPostReachesTheMailbox(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	here := bustest.Join(t, url)
	holder, other := callerOn(t, here), newCaller(t, url)
	if err := here.Flush(t.Context()); err != nil { // NATS knows its subscriptions
		t.Fatal(err)
	}
	s, unrelated := holder.OpenMailbox(nil), holder.OpenMailbox(nil)
	defer s.Close()
	defer unrelated.Close()
	if s.Address == unrelated.Address {
		t.Fatal("two mailboxes have one address")
	}
	ctx := within(t, bustest.Patience)
	for i := range 100 {
		from := []*edges.Caller{other, holder}[i%2]
		if err := from.Post(ctx, s.Address, nil, edges.Posted{Body: []byte(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "a message", s.C)
	got := s.Take()
	if len(got) != 100 {
		t.Fatalf("%d messages wait", len(got))
	}
	for i, p := range got {
		if string(p.Body) != fmt.Sprint(i) {
			t.Fatalf("message %d is %q", i, p.Body)
		}
	}
	if got := append(unrelated.Take(), s.Take()...); len(got) > 0 {
		t.Errorf("also taken: %q", got)
	}
}

func TestPostIsRefused(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	holder, other := newCaller(t, url), newCaller(t, url)
	ctx := within(t, bustest.Patience)
	edge, _, _ := strings.Cut(holder.OpenMailbox(nil).Address, ".")
	bustest.Eventually(t, "the holder is heard of", func() bool {
		s := holder.OpenMailbox(nil)
		defer s.Close()
		return other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")}) == nil
	})
	t.Run("what is no address", func(t *testing.T) {
		for _, address := range []string{"", ".", "x", "a.", ".b", "a.b.c", "*.>", ">.a", "a b.c", "a.b\r\nPUB x", edge + ".*", strings.Repeat("x", 65) + ".y", "edge.x"} {
			fails(t, other.Post(ctx, address, nil, edges.Posted{Body: []byte("x")}), fault.InvalidRequest, fault.No)
		}
	})
	t.Run("an edge or a mailbox that is not there", func(t *testing.T) {
		for _, address := range []string{"nobody.x", edge + ".x"} {
			fails(t, other.Post(ctx, address, nil, edges.Posted{Body: []byte("x")}), fault.UnknownSession, fault.No)
		}
	})
	t.Run("a mailbox that was closed", func(t *testing.T) {
		s := holder.OpenMailbox(nil)
		s.Close()
		fails(t, other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")}), fault.UnknownSession, fault.No)
	})
	t.Run("other credentials", func(t *testing.T) {
		s := holder.OpenMailbox([]byte("mine"))
		defer s.Close()
		for _, digest := range [][]byte{nil, []byte("yours"), []byte("min")} {
			fails(t, other.Post(ctx, s.Address, digest, edges.Posted{Body: []byte("x")}), fault.UnknownSession, fault.No)
		}
		if err := other.Post(ctx, s.Address, []byte("mine"), edges.Posted{Body: []byte("x")}); err != nil {
			t.Error(err)
		}
	})
	t.Run("more messages than may wait", func(t *testing.T) {
		s := holder.OpenMailbox(nil)
		defer s.Close()
		n := 0
		var err error
		for ; err == nil && n < 1000; n++ {
			err = other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")})
		}
		fails(t, err, fault.Overloaded, fault.No)
		if got := len(s.Take()); got != n-1 {
			t.Errorf("%d of %d were taken", got, n-1)
		}
		if err := other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")}); err != nil {
			t.Errorf("after they were read: %v", err)
		}
	})
	t.Run("more bytes than may wait", func(t *testing.T) {
		s := holder.OpenMailbox(nil)
		defer s.Close()
		n := 0
		var err error
		for ; err == nil && n < 1000; n++ {
			err = other.Post(ctx, s.Address, nil, edges.Posted{Body: bytes.Repeat([]byte("x"), 900<<10)})
		}
		if fails(t, err, fault.Overloaded, fault.No); n > 8 {
			t.Errorf("%d large messages wait", n)
		}
	})
	t.Run("one that is too large", func(t *testing.T) {
		s := holder.OpenMailbox(nil)
		defer s.Close()
		fails(t, other.Post(ctx, s.Address, nil, edges.Posted{Body: make([]byte, 1<<20)}), fault.TooLarge, fault.No)
	})
	t.Run("an edge that is gone", func(t *testing.T) {
		conn := bustest.Connect(t, url)
		gone, err := edges.NewCaller(conn)
		if err != nil {
			t.Fatal(err)
		}
		s := gone.OpenMailbox(nil)
		conn.Close()
		bustest.Eventually(t, "NATS has noticed", func() bool {
			return fault.Is(other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")}), fault.UnknownSession)
		})
		began := time.Now()
		fails(t, other.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("x")}), fault.UnknownSession, fault.No)
		if took := time.Since(began); took > bustest.Promptly {
			t.Errorf("took %v", took)
		}
	})
	t.Run("the bus is away", func(t *testing.T) {
		conn := bustest.Connect(t, url)
		c, err := edges.NewCaller(conn)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		fails(t, c.Post(ctx, "a.b", nil, edges.Posted{Body: []byte("x")}), fault.Unavailable, fault.No)
	})
}

// A foreign edge may answer anything or nothing.
func TestPostToAnOddEdge(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	c := newCaller(t, url)
	nc := raw(t, url)
	answers := map[string]func(*nats.Msg){
		"mute":    func(*nats.Msg) {},
		"garbage": func(m *nats.Msg) { _ = nc.Publish(m.Reply, []byte("\xff\xff")) },
		"word":    func(m *nats.Msg) { _ = nc.Publish(m.Reply, encoded(t, &edgev1.ClientMessageTaken{Reason: "whatever"})) },
	}
	for name, answer := range answers {
		if _, err := nc.Subscribe("mcp.ctl.edge."+name+".message", answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	ctx := within(t, bustest.Patience)
	fails(t, c.Post(ctx, "mute.x", nil, edges.Posted{Body: nil}), fault.PeerLost, fault.Unknown)
	fails(t, c.Post(ctx, "garbage.x", nil, edges.Posted{Body: nil}), fault.PeerLost, fault.Unknown)
	fails(t, c.Post(ctx, "word.x", nil, edges.Posted{Body: nil}), fault.Internal, fault.No)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	fails(t, c.Post(ended, "mute.x", nil, edges.Posted{}), fault.Cancelled, fault.Unknown)
}

// No sender can make an edge publish on an arbitrary subject, or break it.
func TestMailboxMindsItsReply(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	c := newCaller(t, url)
	s := c.OpenMailbox(nil)
	defer s.Close()
	edge, token, _ := strings.Cut(s.Address, ".")
	nc := raw(t, url)
	heard, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	subject, good := "mcp.ctl.edge."+edge+".message", encoded(t, &edgev1.ClientMessage{Token: token, Body: []byte("x")})
	if err := nc.Publish(subject, good); err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"anywhere", "mcp.reply.client.a.b", "mcp.call.svc.tools.call", "mcp.reply.edge"} {
		if err := nc.PublishRequest(subject, reply, good); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.PublishRequest(subject, "mcp.reply.edge.a.b", []byte("\xff")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil { // before the answer to the last is on its way
		t.Fatal(err)
	}
	ctx := within(t, bustest.Patience)
	if err := c.Post(ctx, s.Address, nil, edges.Posted{Body: []byte("last")}); err != nil {
		t.Fatal(err)
	}
	if got := s.Take(); len(got) != 1 || string(got[0].Body) != "last" {
		t.Errorf("took %q", got)
	}
	for {
		msg, err := heard.NextMsg(bustest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(msg.Subject, "mcp.reply.edge."+edge) {
			return // the answer to the last, and none before it
		}
		if msg.Subject != subject {
			t.Errorf("the edge published on %s", msg.Subject)
		}
	}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
