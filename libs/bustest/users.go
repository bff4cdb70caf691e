package bustest

import (
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// User is a NATS user and what it may do. With nothing to publish and nothing to
// subscribe it may do everything.
type User struct {
	Name               string
	Publish, Subscribe []string
}

// ServerFor starts a NATS server that knows these users only, and returns the URL
// of each by name.
func ServerFor(t testing.TB, users ...User) map[string]string {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxPayload: 1 << 20, DisableShortFirstPing: true,
		JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 8 << 30,
	}
	for _, u := range users {
		one := &server.User{Username: u.Name, Password: "x"}
		if len(u.Publish)+len(u.Subscribe) > 0 {
			one.Permissions = &server.Permissions{
				Publish: &server.SubjectPermission{Allow: u.Publish}, Subscribe: &server.SubjectPermission{Allow: u.Subscribe},
			}
		}
		o.Users = append(o.Users, one)
	}
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatalf("start NATS: %v", err)
	}
	go ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(20 * time.Second) {
		t.Fatal("NATS did not become ready in 20 s")
	}
	urls := map[string]string{}
	for _, u := range users {
		urls[u.Name] = (&url.URL{Scheme: "nats", Host: ns.Addr().String(), User: url.UserPassword(u.Name, "x")}).String()
	}
	return urls
}
