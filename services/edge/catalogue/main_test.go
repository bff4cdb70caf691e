package catalogue_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// watch follows the bus at url as one more edge.
func watch(t *testing.T, url string) *catalogue.Live {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	l, err := catalogue.Watch(ctx, bustest.Connect(t, url), bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// announcer puts any catalogue on the bus: services that are not built with our SDK may say
// anything.
type announcer struct {
	t *testing.T
	*registry.Announcer
	gone bool
}

func announce(t *testing.T, url string, c *busv1.Catalogue) *announcer {
	t.Helper()
	return announceOn(t, bustest.Connect(t, url), c)
}

func announceOn(t *testing.T, conn *bus.Conn, c *busv1.Catalogue) *announcer {
	t.Helper()
	return announceAs(t, conn, "i1", "1.0.0", c)
}

// announceAs announces an instance of a release.
func announceAs(t *testing.T, conn *bus.Conn, instance, version string, c *busv1.Catalogue) *announcer {
	t.Helper()
	a, err := registry.Announce(conn, c.Service, instance, version, c)
	if err != nil {
		t.Error(err)
		return nil
	}
	n := &announcer{t: t, Announcer: a}
	t.Cleanup(n.leave)
	return n
}

func (a *announcer) update(c *busv1.Catalogue) {
	a.t.Helper()
	if err := a.Update(c); err != nil {
		a.t.Fatal(err)
	}
}

func (a *announcer) leave() {
	if !a.gone {
		a.gone = true
		ctx, cancel := context.WithTimeout(context.Background(), bustest.Patience)
		defer cancel()
		a.Withdraw(ctx)
	}
}

func tool(name string) *busv1.Tool {
	return &busv1.Tool{Name: name, Json: []byte(`{"name":"` + name + `","inputSchema":{"type":"object"}}`), InputSchema: []byte(`{"type":"object"}`)}
}

func tools(service string, names ...string) *busv1.Catalogue {
	c := &busv1.Catalogue{Service: service}
	for _, n := range names {
		c.Tools = append(c.Tools, tool(n))
	}
	return c
}

// entry is an entry of a resource in a list.
func entry(uri string) *busv1.Resource {
	return &busv1.Resource{Uri: uri, Json: fmt.Appendf(nil, `{"uri":%q,"name":"x"}`, uri)}
}

// template is an entry of a template in a list.
func template(uri string) *busv1.ResourceTemplate {
	return &busv1.ResourceTemplate{UriTemplate: uri, Json: fmt.Appendf(nil, `{"uriTemplate":%q,"name":"x"}`, uri)}
}

func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("t%04d", i))
	}
	return names
}

// page reads one page of tools.
func page(t *testing.T, s *catalogue.Snapshot, cursor []byte) (names []string, next []byte) {
	t.Helper()
	raw, err := pageOf(s, catalogue.Tools, cursor)
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Tools []struct {
			Name string         `json:"name"`
			Rest jsontext.Value `json:",inline"`
		} `json:"tools"`
		Next *string `json:"nextCursor,omitzero"`
	}
	if err := json.Unmarshal([]byte("{"+string(raw)+"}"), &p); err != nil {
		t.Fatalf("%v: %.200s", err, raw)
	}
	for _, e := range p.Tools {
		names = append(names, e.Name)
	}
	if p.Next != nil {
		next = []byte(*p.Next)
	}
	return names, next
}

// all reads every page of tools.
func all(t *testing.T, s *catalogue.Snapshot) string {
	t.Helper()
	names, next := page(t, s, nil)
	for next != nil {
		var more []string
		more, next = page(t, s, next)
		names = append(names, more...)
	}
	return strings.Join(names, " ")
}

// becomes waits until the tools are those named.
func becomes(t *testing.T, l *catalogue.Live, names string) {
	t.Helper()
	bustest.Eventually(t, "the tools become "+names, func() bool { return all(t, l.Now()) == names })
}

// kept waits until n names are kept for their services, so that an edge that starts later also
// knows who came first.
func kept(t *testing.T, url string, n int) {
	t.Helper()
	bucket := bustest.Connect(t, url).Bucket(bus.NamesBucket)
	bustest.Eventually(t, fmt.Sprint(n, " names are kept for their services"), func() bool {
		there := 0
		err := bucket.All(t.Context(), func(key string, _ []byte) {
			if strings.Contains(key, ".") { // the order of claims has a key, too
				there++
			}
		})
		return err == nil && there == n
	})
}

// pageOf is a page of a list as it is sent.
func pageOf(s *catalogue.Snapshot, kind catalogue.Kind, cursor []byte) ([]byte, error) {
	p, err := s.List(context.Background(), kind, "", cursor, 0, nil)
	if err != nil {
		return nil, err
	}
	b := p.Append(nil)
	if len(b) > p.Size() {
		return nil, fmt.Errorf("the page says %d bytes, and has %d", p.Size(), len(b))
	}
	return b, nil
}
