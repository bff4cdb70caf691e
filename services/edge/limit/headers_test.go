package limit

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// own is an authenticator with a header of its own.
type own struct{ gate }

func (*own) Headers() []string { return []string{"X-Custom-Auth"} }

// A header that does not identify the caller is not a credential, however its name sounds. A
// client behind a proxy is counted by its own address.
func TestFailuresCountCredentialsAlone(t *testing.T) {
	t.Parallel()
	inner := &own{}
	f := NewFailures(inner)
	ask := func(client, bearer, name, value string) fault.Reason {
		c := gateway.Credentials{Address: "192.0.2.1", Client: client, Bearer: bearer, Header: http.Header{name: {value}}}
		if _, err := f.Authenticate(context.Background(), c); err != nil {
			return fault.From(err).Reason
		}
		return ""
	}
	for i := range 100 {
		for _, name := range []string{"User-Agent", "Idempotency-Key", "Sec-Websocket-Key"} {
			if r := ask("", "", name, fmt.Sprint(i)); r != fault.Unauthenticated {
				t.Fatalf("who shows nothing but %s gets %s", name, r)
			}
		}
	}
	if r := ask("", "good one", "X-A", ""); r != "" {
		t.Errorf("a good one after many without any: %s", r)
	}
	for i := range 100 {
		ask("", "", "X-Custom-Auth", fmt.Sprint(i))
	}
	if r := ask("", "", "X-Custom-Auth", "one more"); r != fault.RateLimited {
		t.Errorf("bad ones in a header of one's own: %s", r)
	}
	if r := ask("198.51.100.7", "good, elsewhere", "X-A", ""); r != "" {
		t.Errorf("another client of the same proxy: %s", r)
	}
}

// Credentials that were valid stay known, whatever other headers a request has.
func TestGoodCredentialsStayKnown(t *testing.T) {
	t.Parallel()
	f := NewFailures(&gate{})
	ask := func(bearer, key string) error {
		_, err := f.Authenticate(context.Background(), gateway.Credentials{Address: "192.0.2.1", Bearer: bearer, Header: http.Header{"Idempotency-Key": {key}}})
		return err
	}
	_ = ask("bad", "")
	if err := ask("good one", "first"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		_ = ask(fmt.Sprint("bad", i), "")
	}
	for i := range 100 {
		if err := ask("good one", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
}
