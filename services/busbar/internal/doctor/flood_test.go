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
	flood(t, url, registry.MaxInstances+1, func(i int) (string, string) { return "evil", fmt.Sprintf("I%011d", i) })
	found := look(t, url, doctor.Options{})
	says(t, found, "services", doctor.Wrong, fmt.Sprintf("evil: the registry has %d instances, and an edge keeps %d", registry.MaxInstances+1, registry.MaxInstances), "--renew evil")
	if all := text(t, found); strings.Count(all, "evil") > 2 || strings.Contains(all, "does not answer") {
		t.Errorf("it is said of each of them:\n%s", all)
	}
}

// Made-up services are one finding too.
func TestFloodOfServices(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	flood(t, url, registry.MaxServices+1, func(i int) (string, string) { return fmt.Sprintf("evil-%04d", i), "one" })
	found := look(t, url, doctor.Options{})
	says(t, found, "services", doctor.Wrong, fmt.Sprintf("the registry has %d services, among them evil-0000, evil-0001, evil-0002, and an edge keeps %d", registry.MaxServices+1, registry.MaxServices), "stop what announces them")
	if all := text(t, found); strings.Contains(all, "evil-0003") {
		t.Errorf("it is said of each of them:\n%s", all)
	}
}

// flood announces so many made-up instances; named says of which service each is, and what
// it is called.
func flood(t *testing.T, url string, instances int, named func(i int) (service, instance string)) {
	t.Helper()
	conn := bustest.Connect(t, url)
	for i := range instances {
		service, instance := named(i)
		data, err := proto.Marshal(&busv1.Announcement{Service: service, Instance: instance, Version: "1.0.0", SentUnixNano: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: "$KV.registry." + service + "." + instance, Data: data}); err != nil {
			t.Fatal(err)
		}
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
