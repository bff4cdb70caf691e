package hostile

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
)

// ears are subjects that evil listens at, each with a message there that it must not hear.
var ears = []struct{ at, said string }{
	{">", "mcp.call.text.tools.call"}, {"mcp.>", "mcp.audit.edge1"}, {"*.>", "mcp.reply.text.e.c"}, {"mcp.*.>", "mcp.to.text.i.tools.call"},
	{"mcp.call.>", "mcp.call.text.tools.call"}, {"mcp.call.text.>", "mcp.call.text.prompts.get"}, {"mcp.call.*.tools.call", "mcp.call.text.tools.call"},
	{"mcp.call.gateway.>", "mcp.call.gateway.text.tools.call"}, {"mcp.to.>", "mcp.to.text.i.tools.call"}, {"mcp.to.text.i.>", "mcp.to.text.i.tools.call"},
	{"mcp.reply.>", "mcp.reply.text.e.c"}, {"mcp.reply.text.>", "mcp.reply.text.e.c"}, {"mcp.reply.*.*.*", "mcp.reply.text.e.c"},
	{"mcp.reply.gateway.>", "mcp.reply.gateway.text.i.c"}, {"mcp.reply.gateway.text.>", "mcp.reply.gateway.text.i.c"},
	{"mcp.reply.client.>", "mcp.reply.client.e.t"}, {"mcp.reply.edge.>", "mcp.reply.edge.e.t"},
	{"mcp.evt.>", "mcp.evt.text.e.s.1.c"}, {"mcp.evt.text.updated", "mcp.evt.text.updated"}, {"mcp.live.>", "mcp.live.text.e.s.1.c"},
	{"mcp.audit.>", "mcp.audit.edge1"}, {"mcp.dlq.>", "mcp.dlq.audit"}, {"mcp.task.>", "mcp.task.text"}, {"mcp.task.text", "mcp.task.text"},
	{"mcp.ctl.>", "mcp.ctl.text.cancel"}, {"mcp.ctl.text.>", "mcp.ctl.text.permit.i"}, {"mcp.ctl.edge.>", "mcp.ctl.edge.e.message"},
	{"mcp.ctl.gateway.>", "mcp.ctl.gateway.text.cancel"},
	{"$KV.>", "$KV.keys.request-state.1"}, {"$KV.keys.>", "$KV.keys.request-state.1"}, {"$KV.sessions.>", "$KV.sessions.s"}, {"$KV.approvals.>", "$KV.approvals.held.a"},
	{"$KV.outcomes.>", "$KV.outcomes.o"}, {"$KV.streams.>", "$KV.streams.s"}, {"$KV.tasks.>", "$KV.tasks.text.t"}, {"$KV.names.>", "$KV.names.tools.n"},
	{"$KV.registry.>", "$KV.registry.text.i"}, {"$KV.catalogue.text.*", "$KV.catalogue.text.d"}, {"$KV.audit.>", "$KV.audit.digests"},
	{"$KV.access.>", "$KV.access.key.k"}, {"$KV.limits.>", "$KV.limits.edges"},
	{"_INBOX.>", "_INBOX.edge.x.y"}, {"_INBOX.edge.>", "_INBOX.edge.x.y"}, {"_INBOX.text.>", "_INBOX.text.x.y"}, {"_INBOX.operator.>", "_INBOX.operator.x.y"},
	{"$JS.>", "$JS.API.STREAM.INFO.KV_keys"}, {"$JS.ACK.>", "$JS.ACK.TASKS.text.1.1.1.1.0"}, {"$SRV.>", "$SRV.PING.text"},
}

// The service evil does not hear messages to others. The control, god, may hear them and does.
func TestC3NobodyHearsWhatIsForAnother(t *testing.T) {
	w := newWorld(t)
	for _, ear := range ears {
		t.Run(ear.at, func(t *testing.T) {
			for _, group := range []string{"", "text", "gateway", "evil"} {
				sub, err := w.evil.QueueSubscribeSync(ear.at, group)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = sub.Unsubscribe() }()
				if err := w.evil.Flush(); err != nil {
					t.Fatal(err)
				}
				before := w.count(ear.said)
				if err := w.god.Publish(ear.said, []byte("secret")); err != nil {
					t.Fatal(err)
				}
				if w.times(t, ear.said) == before { // or more: an edge may say it, too
					t.Fatal("the control has not heard it")
				}
				if err := w.evil.Flush(); err != nil {
					t.Fatal(err)
				}
				for {
					msg, err := sub.NextMsg(time.Millisecond)
					if err != nil {
						break
					}
					if string(msg.Data) == "secret" {
						t.Errorf("heard %s in group %q", msg.Subject, group)
					}
				}
			}
		})
	}
}

// mouths are subjects at which evil must not be heard.
var mouths = []string{
	"mcp.call.text.tools.call", "mcp.call.evil.tools.call", "mcp.call.audit.busbar.audit", "mcp.to.text.i.tools.call", "mcp.call.gateway.text.tools.call", "mcp.call.gateway.tools.call",
	"mcp.call.gateway.evil.resources.read", "mcp.reply.text.e.c", "mcp.reply.client.e.t", "mcp.reply.edge.e.t", "mcp.reply.gateway.evil.i.c", "mcp.reply.gateway.text.i.c",
	"mcp.evt.text.updated", "mcp.evt.text.e.s.1.c", "mcp.evt.edge.e.s.1.c", "mcp.live.text.e.s.1.c", "mcp.audit.edge1", "mcp.audit.operator", "mcp.dlq.audit", "mcp.task.text", "mcp.task.evil",
	"mcp.ctl.text.cancel", "mcp.ctl.text.permit.i", "mcp.ctl.text.changed", "mcp.ctl.text.catalogue.d", "mcp.ctl.gateway.text.cancel", "mcp.ctl.gateway.cancel", "mcp.ctl.edge.cancel",
	"mcp.ctl.edge.names", "mcp.ctl.edge.e.message", "$KV.registry.text.i", "$KV.registry.text.store", "$KV.catalogue.text.d", "$KV.tasks.text.t", "$KV.keys.request-state.1",
	"$KV.sessions.s", "$KV.approvals.held.a", "$KV.approvals.used.a", "$KV.outcomes.o", "$KV.names.tools.n", "$KV.streams.s", "$KV.audit.head.h", "$KV.audit.digests",
	"$KV.access.key.k", "$KV.limits.edges", "_INBOX.edge.x.y", "_INBOX.text.x.y",
	"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.UPDATE.KV_keys", "$JS.API.STREAM.INFO.KV_keys",
	"$JS.API.STREAM.MSG.GET.KV_keys", "$JS.API.STREAM.MSG.DELETE.KV_keys", "$JS.API.STREAM.SNAPSHOT.KV_keys",
	"$JS.API.DIRECT.GET.KV_keys.$KV.keys.request-state.1", "$JS.API.DIRECT.GET.KV_tasks.$KV.tasks.text.t", "$JS.API.DIRECT.GET.KV_tasks", "$JS.API.DIRECT.GET.KV_sessions", "$JS.API.DIRECT.GET.EVT",
	"$JS.API.CONSUMER.CREATE.KV_keys", "$JS.API.CONSUMER.CREATE.TASKS.evil.mcp.task.evil", "$JS.API.CONSUMER.CREATE.TASKS.x.mcp.task.text", "$JS.API.CONSUMER.DELETE.TASKS.text",
	"$JS.API.CONSUMER.DELETE.AUDIT.audit-v1", "$JS.API.CONSUMER.MSG.NEXT.TASKS.text", "$JS.API.CONSUMER.MSG.NEXT.AUDIT.audit-v1", "$JS.ACK.TASKS.text.1.1.1.1.0", "$JS.ACK.AUDIT.audit-v1.1.1.1.1.0",
	"$JS.API.DIRECT.GET.DLQ", "$JS.API.STREAM.MSG.GET.DLQ", "$JS.API.STREAM.MSG.DELETE.DLQ", "$JS.API.STREAM.PURGE.DLQ", "$JS.API.STREAM.LEADER.STEPDOWN.AUDIT",
	"$SRV.PING", "$SRV.INFO.text",
}

// No message of evil reaches the account of the edges. The control sends the same, and is heard.
func TestNobodySpeaksForAnother(t *testing.T) {
	w := newWorld(t)
	for _, at := range mouths {
		t.Run(at, func(t *testing.T) {
			// Edges ask some of this themselves, every few seconds: what is evil's is heard each time.
			before, heard := w.times(t, at), 1
			for round := 0; heard > 0 && round < 3; round++ {
				for _, reply := range []string{"", "_INBOX.evil.x", "mcp.reply.evil.e.c"} {
					if err := w.evil.PublishMsg(&nats.Msg{Subject: at, Reply: reply}); err != nil {
						t.Fatal(err)
					}
				}
				n := w.times(t, at)
				before, heard = n, n-before
			}
			if heard > 0 {
				t.Errorf("heard %d times", heard)
			}
			if strings.HasPrefix(at, "$JS.API.") || strings.HasPrefix(at, "$JS.ACK.AUDIT") { // would do it
				return
			}
			if err := w.god.Publish(at, []byte("x")); err != nil {
				t.Fatal(err)
			}
			if n := w.times(t, at); n == before {
				t.Error("the control was not heard")
			}
		})
	}
	if n := w.ran.Load(); n != 0 {
		t.Errorf("text ran %d times", n)
	}
}

// JetStream answers at the subject that a request names. Answers to evil's requests come back to
// evil and to nobody else, whatever the requests name. The control's request is answered there.
func TestJetStreamSpeaksForNobody(t *testing.T) {
	w := newWorld(t)
	for _, bucket := range []string{"tasks", "registry"} { // what is then read back, byte for byte
		if _, err := w.evil.Request("$KV."+bucket+".evil.store", []byte("{}"), bustest.Patience); err != nil {
			t.Fatal(err)
		}
	}
	for _, asked := range []string{
		"$KV.registry.evil.store", "$KV.catalogue.evil.d", "$KV.tasks.evil.store", "mcp.evt.evil.updated", "$JS.API.DIRECT.GET.KV_registry.$KV.registry.evil.store",
		"$JS.API.DIRECT.GET.KV_tasks.$KV.tasks.evil.store",
	} {
		for _, there := range []string{"mcp.call.text.tools.call", "mcp.audit.edge1", "$KV.keys.request-state.9", "$KV.registry.text.i", "_INBOX.edge.x.y", "$JS.API.STREAM.PURGE.KV_outcomes"} {
			t.Run(asked+" to "+there, func(t *testing.T) {
				before := w.times(t, there)
				if err := w.evil.PublishRequest(asked, there, nil); err != nil {
					t.Fatal(err)
				}
				if n := w.times(t, there); n != before {
					t.Errorf("JetStream spoke there %d times", n-before)
				}
				if err := w.god.PublishRequest(asked, there, nil); err != nil {
					t.Fatal(err)
				}
				bustest.Eventually(t, "the control has JetStream speak there", func() bool { return w.count(there) > before })
			})
		}
	}
}

// A header on a key of its own empties no bucket that others write in. The control
// empties one that only edges write in.
func TestNobodyRollsUp(t *testing.T) {
	w := newWorld(t)
	rollup := func(nc *nats.Conn, key string, wait time.Duration) {
		msg := nats.NewMsg(key)
		msg.Header.Set("Nats-Rollup", "all")
		_, _ = nc.RequestMsg(msg, wait)
	}
	has := func(bucket, key string) bool {
		msg, err := w.god.Request("$JS.API.DIRECT.GET.KV_"+bucket+".$KV."+bucket+"."+key, nil, bustest.Patience)
		return err == nil && msg.Header.Get("Status") == ""
	}
	for _, bucket := range []string{"tasks", "registry", "catalogue"} {
		if _, err := w.god.Request("$KV."+bucket+".text.x", []byte("x"), bustest.Patience); err != nil {
			t.Fatal(err)
		}
		if rollup(w.evil, "$KV."+bucket+".evil.x", 500*time.Millisecond); !has(bucket, "text.x") {
			t.Errorf("bucket %s was emptied", bucket)
		}
	}
	if _, err := w.god.Request("$KV.outcomes.x", []byte("x"), bustest.Patience); err != nil {
		t.Fatal(err)
	}
	if rollup(w.god, "$KV.outcomes.y", bustest.Patience); has("outcomes", "x") {
		t.Error("the control empties nothing")
	}
}

// Announcements of another service that evil makes under its own name count for nothing.
func TestNobodyAnnouncesAnother(t *testing.T) {
	w := newWorld(t)
	announce := func(key string, ann *busv1.Announcement) {
		data, err := proto.Marshal(ann)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.evil.Request(key, data, bustest.Patience); err != nil {
			t.Fatal(err)
		}
	}
	announce("$KV.registry.evil.i", &busv1.Announcement{Service: "text", Instance: "i", Version: "9.9.9"})
	announce("$KV.registry.evil.i", &busv1.Announcement{Service: "edge", Instance: "i", Version: "9.9.9"})
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	if err := w.edge.Await(ctx, "text"); err != nil {
		t.Fatal(err)
	}
}
