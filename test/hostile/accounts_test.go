package hostile

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// reach lists subjects that a hostile program may want beyond its rights: another one's calls and
// answers, JetStream, the server itself, and messages to edges.
var reach = []string{
	"mcp.call.victim.tools.call", "mcp.to.victim.i.tools.call", "mcp.reply.victim.e.c", "mcp.reply.client.e.t", "mcp.reply.gateway.victim.i.c", "mcp.ctl.victim.permit.i",
	"mcp.ctl.edge.names", "mcp.evt.victim.updated", "mcp.audit.edge1", "mcp.task.victim", "_INBOX.victim.x", "_INBOX.edge.x",
	"$KV.keys.request-state.1", "$KV.access.key.k", "$KV.registry.victim.i", "$KV.catalogue.victim.d", "$KV.tasks.victim.t",
	"$JS.API.STREAM.DELETE.KV_keys", "$JS.API.STREAM.PURGE.AUDIT", "$JS.API.CONSUMER.CREATE.AUDIT", "$JS.ACK.TASKS.victim.1.1.1.1.0",
	"$SYS.REQ.SERVER.PING", "$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.ACCOUNT.edge.CONNECT",
}

// TestCase68 has every kind of program connect to NATS itself, with the secret of its
// user, and try what is another one's: nothing that it says there is heard in the
// account of the edges, and nothing that is said there is heard by it.
func TestCase68(t *testing.T) {
	w := newWorld(t)
	for _, user := range []string{"text", "planner", "audit", "evil"} {
		t.Run(user, func(t *testing.T) {
			nc := w.as(t, user)
			var deaf []*nats.Subscription
			for _, at := range append(reach, ">", "mcp.>", "$SYS.>", "$JS.>", "$KV.>", "_INBOX.>") {
				sub, err := nc.SubscribeSync(at)
				if err != nil {
					t.Fatal(err)
				}
				deaf = append(deaf, sub)
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			before := map[string]int{}
			for _, at := range reach {
				before[at] = w.count(at)
				if err := nc.PublishRequest(at, "_INBOX."+user+".x", []byte("from "+user)); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			for _, at := range reach {
				if n := w.times(t, at); n != before[at] {
					t.Errorf("%s: heard %d times", at, n-before[at])
				}
			}
			for _, at := range reach[:17] { // what JetStream and the server would do is not asked for
				if err := w.god.Publish(at, []byte("secret")); err != nil {
					t.Fatal(err)
				}
				if n := w.times(t, at); n != before[at]+1 {
					t.Errorf("%s: the control is heard %d times", at, n-before[at])
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
			for _, sub := range deaf {
				for {
					msg, err := sub.NextMsg(time.Millisecond)
					if err != nil {
						break
					}
					if string(msg.Data) == "secret" {
						t.Errorf("hears %s at %s", msg.Subject, sub.Subject)
					}
				}
			}
		})
	}
	if n := w.ran.Load(); n != 0 {
		t.Errorf("text ran %d times", n)
	}
}

// as is a plain connection with the secret of a user.
func (w *world) as(t *testing.T, name string) *nats.Conn {
	t.Helper()
	own, err := w.fleet.Dir.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	user, err := nkeys.FromSeed(own.Seed)
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return w.raw(t, nats.Nkey(public, user.Sign), nats.CustomInboxPrefix("_INBOX."+name))
}
