package permission_test

import (
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/bustest/beside"
)

// TestReloadAddsService adds a service while the server runs, with two reloads as
// docs/guides/secure-the-bus.md says: a server creates the imports of a new account at the second
// one. Existing connections stay.
func TestReloadAddsService(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address, data := l.Addr().String(), t.TempDir()
	_ = l.Close()
	config := func(all ...permission.Who) string {
		return fmt.Sprintf("listen: %q\njetstream { store_dir: %q }\n%s", address, data, permission.Config(all...))
	}
	edges, edge := member(t, permission.OfEdges())
	hello, service := member(t, user(t, "hello"))
	text, _ := member(t, user(t, "text"))
	server, err := beside.Start(beside.Config{Conf: config(edges, text)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})

	atEdge := edge(address)
	js, err := jetstream.New(atEdge)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the registry is there", func() bool {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "KV_registry", Subjects: []string{"$KV.registry.>"}})
		return err == nil
	})
	heard, err := atEdge.SubscribeSync("$KV.registry.>")
	if err := errors.Join(err, atEdge.Flush()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := server.Reload(config(edges, text, hello)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := service(address).Request("$KV.registry.hello.one", []byte("there"), bustest.Patience); err != nil {
		t.Fatalf("the registry takes no announcement of the new service: %v", err)
	}
	if msg, err := heard.NextMsg(bustest.Patience); err != nil || string(msg.Data) != "there" {
		t.Errorf("the edge heard %v, %v", msg, err)
	}
	if n := atEdge.Stats().Reconnects; n != 0 {
		t.Errorf("the edge was disconnected %d times", n)
	}
}

func user(t *testing.T, service string) permission.User {
	t.Helper()
	u, err := permission.Of(service)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// member gives a user a key, and returns how it connects.
func member(t *testing.T, u permission.User) (permission.Who, func(address string) *nats.Conn) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	public, err := pair.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return permission.Who{User: u, NKeys: []string{public}}, func(address string) (conn *nats.Conn) {
		t.Helper()
		bustest.Eventually(t, u.Name+" connects", func() bool {
			conn, err = nats.Connect("nats://"+address, nats.Nkey(public, pair.Sign), nats.CustomInboxPrefix("_INBOX."+u.Name), nats.Timeout(5*time.Second))
			return err == nil
		})
		t.Cleanup(conn.Close)
		return conn
	}
}
