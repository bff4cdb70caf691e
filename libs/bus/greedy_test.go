package bus_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// An announcement that is too large for the registry is also ignored when it is heard live.
// Otherwise the instances of one service could fill the memory of every edge.
func TestHugeAnnouncements(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	v := watch(t, bustest.Connect(t, url))
	c := catalogue("text", "a")
	announce(t, bustest.Connect(t, url), "text", "one", "1.0.0", c)
	v.sees(t, "text 1.0.0 x1: a", atOnce)
	nc := raw(t, url)
	digest := v.Services()[0].Digest
	for i, size := range []int{registry.MaxAnnouncement + 1, 512 << 10} {
		instance := fmt.Sprint("huge", i)
		data, err := proto.Marshal(&busv1.Announcement{Service: "text", Instance: instance, Version: strings.Repeat("1", size), CatalogueDigest: digest})
		if err != nil {
			t.Fatal(err)
		}
		if err := nc.Publish("$KV.registry.text."+instance, data); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(bustest.Patience); err != nil {
		t.Fatal(err)
	}
	announce(t, bustest.Connect(t, url), "later", "one", "1.0.0", catalogue("later", "b"))
	v.sees(t, "later 1.0.0 x1: b; text 1.0.0 x1: a", atOnce)
}

// fillHeaders fills a bucket with entries of a service that consist of headers, as a client
// that is not ours writes them, until it takes no more.
func fillHeaders(t *testing.T, server, bucket, service, header string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprint(conn, "CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		h := "NATS/1.0\r\n" + header + "\r\n\r\n"
		if _, err := fmt.Fprintf(conn, "HPUB $KV.%s.%s.I%011d %d %d\r\n%s\r\n", bucket, service, i, len(h), len(h), h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		t.Fatal(err)
	}
	for said := bufio.NewScanner(conn); said.Scan() && said.Text() != "PONG"; {
		if strings.HasPrefix(said.Text(), "-ERR") {
			t.Fatal(said.Text())
		}
	}
	js := rawJetStream(t, server)
	bustest.Eventually(t, "the bucket is nearly full", func() bool {
		found, err := js.Stream(t.Context(), "KV_"+bucket)
		if err != nil {
			return false
		}
		info := found.CachedInfo()
		return info.State.Bytes > uint64(info.Config.MaxBytes)*9/10
	})
}

// A service's writes count with their headers, including those that a client library does not show:
// spaces, lines without a name, and invalid headers.
func TestHeadersCount(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"long":    "X: " + strings.Repeat("x", 60<<10),
		"spaces":  "X: " + strings.Repeat(" ", 60<<10),
		"no name": ":" + strings.Repeat("x", 60<<10),
		"invalid": strings.Repeat("x", 60<<10),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := bustest.Server(t)
			_, s := looksAfter(t, url, &bustest.Log{})
			const room = 4 << 20
			small(t, url, bus.TasksBucket, room)
			fillHeaders(t, url, bus.TasksBucket, "evil", header)
			if err := s.MakeRoom(within(t, bustest.Patience), bus.TasksBucket, "text"); err != nil {
				t.Fatal(err)
			}
			found, err := rawJetStream(t, url).Stream(t.Context(), "KV_"+bus.TasksBucket)
			if err != nil {
				t.Fatal(err)
			}
			if left := found.CachedInfo().State.Bytes; left > room/2+room/20 {
				t.Errorf("%d of %d bytes are left of the service that fills the bucket", left, room)
			}
			if err := s.Admit(bus.TasksBucket, "evil"); !fault.Is(err, fault.Overloaded) {
				t.Errorf("the service that fills the bucket may begin more: %v", err)
			}
		})
	}
}

// A refused service that retries at the advised time is admitted once there is room.
func TestRefusedServiceIsAdmittedAgain(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	network, conn := through(t, url)
	s, err := storage.Ensure(within(t, bustest.Patience), conn, storage.Auto)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Keep())
	small(t, url, bus.TasksBucket, 4<<20)
	js := rawJetStream(t, url)
	const entry = 64 << 10
	for i := range 4 << 20 * 4 / 5 / entry { // tight, but not so full that anything is removed
		if _, err := js.Publish(t.Context(), fmt.Sprintf("$KV.%s.evil.%d", bus.TasksBucket, i), make([]byte, entry)); err != nil {
			t.Fatal(err)
		}
	}
	swap(t, network, conn) // and the buckets are checked
	var refused *fault.Error
	bustest.Eventually(t, "the service has more than its share", func() bool {
		return errors.As(s.Admit(bus.TasksBucket, "evil"), &refused)
	})
	found, err := js.Stream(t.Context(), "KV_"+bus.TasksBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := found.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	for tries := 0; refused != nil; tries++ {
		if tries == 5 { // less than the time between two looks without a refusal
			t.Fatalf("refused %d times: %v", tries, refused)
		}
		<-time.After(refused.RetryAfter)
		if refused = nil; !errors.As(s.Admit(bus.TasksBucket, "evil"), &refused) {
			break
		}
	}
}

// Callers that find a bucket full at the same time read it together, not one after the other:
// reading a large bucket takes seconds.
func TestRoomIsMadeOnce(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	_, s := looksAfter(t, url, &bustest.Log{})
	small(t, url, bus.TasksBucket, 4<<20)
	fillHeaders(t, url, bus.TasksBucket, "evil", "X: "+strings.Repeat("x", 60<<10))
	readings, err := raw(t, url).SubscribeSync("$JS.API.CONSUMER.CREATE.KV_tasks.>")
	if err != nil {
		t.Fatal(err)
	}
	const callers = 50
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			if err := s.MakeRoom(within(t, bustest.Patience), bus.TasksBucket, "text"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n, _, err := readings.Pending(); err != nil || n == 0 || n > callers/2 {
		t.Errorf("%d callers read the bucket %d times: %v", callers, n, err)
	}
}
