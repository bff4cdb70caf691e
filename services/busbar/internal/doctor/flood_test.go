package doctor_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/busbar/internal/doctor"
)

// A service that floods the registry is one finding, however many instances it makes up.
func TestFlood(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	for i := range registry.MaxInstances + 1 {
		instance := fmt.Sprintf("I%011d", i)
		data, err := proto.Marshal(&busv1.Announcement{Service: "evil", Instance: instance, Version: "1.0.0", SentUnixNano: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.registry.evil." + instance, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	found := look(t, url, doctor.Options{})
	says(t, found, "services", doctor.Wrong, fmt.Sprintf("evil: the registry has %d instances, and an edge keeps %d", registry.MaxInstances+1, registry.MaxInstances), "--renew evil")
	if all := text(t, found); strings.Count(all, "evil") > 2 || strings.Contains(all, "does not answer") {
		t.Errorf("it is said of each of them:\n%s", all)
	}
}

// A registry that is full keeps no new instance: doctor says who fills it, and shows the
// instances that run.
func TestFullRegistry(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	found, err := conn.JetStream().Stream(t.Context(), "KV_registry")
	if err != nil {
		t.Fatal(err)
	}
	cfg := found.CachedInfo().Config
	cfg.MaxBytes = 64 << 10
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for i, size := 0, 4000; size > 0; i++ {
		if _, err := conn.JetStream().Publish(t.Context(), fmt.Sprintf("$KV.registry.evil.%d", i), make([]byte, size)); err != nil {
			size /= 10
		}
	}
	start(t, service.New("text", service.WithVersion("1.0.0")), bustest.Join(t, url))
	all := look(t, url, doctor.Options{})
	says(t, all, "storage", doctor.Wrong, "bucket registry: it is nearly full", "service evil has", "look why service evil writes so much")
	says(t, all, "services", doctor.OK, "text: 1 of version 1.0.0")
}
