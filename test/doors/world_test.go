package doors

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/libs/tracing/otlp"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/audit/trail"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/test/testservice"
)

// Tokens of the world: ada is somebody, nobody is not.
const ada, nobody = "ada", "nobody"

// world is a bus with a service, an edge with all doors but stdio, an audit
// service, and for each token an edge behind stdio.
type world struct {
	nats string
	host string // of the HTTP doors
	grpc gatewayv1.GatewayServiceClient
	// client has no proxies and no limits of its own.
	client *http.Client
	edges  []*edge.Edge
	stdio  map[string]*pipe
	conn   *rpc.ClientConn
	ledger testservice.Ledger
	policy *policy
	// results is edge.Config.ResultBytes.
	results int64
	// untracked edges record nothing, for tests that do not concern the trail.
	untracked bool
	// again is how often a call was made again that the trail could not take, by key.
	again sync.Map
	// traces are where edges and services send spans; nil for nowhere.
	traces *otlp.Traces
}

// together is a world of tests that leave it as it is.
var together = bustest.Shared[*world]{Start: newWorld}

func newWorld(t testing.TB) *world { return newWorldOf(t, 0) }

// newWorldOf returns a world with edges that hold that many bytes of results, and record nothing.
func newWorldOf(t testing.TB, results int64) *world {
	return (&world{results: results, untracked: results > 0}).start(t)
}

func (w *world) start(t testing.TB) *world {
	t.Helper()
	w.nats, w.client = bustest.Server(t), &http.Client{Transport: &http.Transport{}}
	w.policy = &policy{full: gateway.NewInFlight(0), asked: map[string]int{}}
	t.Cleanup(w.client.CloseIdleConnections)
	w.keepTrail(t)
	conn := bustest.Join(t, w.nats)
	conn.Trace(w.traces.Service(serviceName))
	servicetest.Join(t, conn, w.service())
	e := w.join(t, byToken{})
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	web, g := listen(), listen()
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ServeAll(serving, &edge.Listeners{HTTP: web, GRPC: g}) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	w.host = web.Addr().String()
	client, err := rpc.NewClient(g.Addr().String(), rpc.WithTransportCredentials(insecure.NewCredentials()),
		rpc.WithDefaultCallOptions(rpc.MaxCallRecvMsgSize(64<<20), rpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	w.conn, w.grpc = client, gatewayv1.NewGatewayServiceClient(client)
	w.stdio = map[string]*pipe{ada: w.openPipe(t, ada)}
	return w
}

// join adds an edge to the bus.
func (w *world) join(t testing.TB, who gateway.Authenticator) *edge.Edge {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	e, err := edge.New(ctx, bustest.Join(t, w.nats), edge.Config{
		Version: "1", Authenticator: who, Access: w.policy, Limiter: w.policy, ResultBytes: w.results, Logger: bustest.Logger(t),
		Audit: edge.Audit{Token: operatorToken, Off: w.untracked}, Tracer: w.traces.Edge(tracesPerSecond),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, serviceName); err != nil {
		t.Fatal(err)
	}
	w.edges = append(w.edges, e)
	return e
}

// operatorToken reads the trail.
const operatorToken = "0perator"

// repeated is how often the call with a key was made again.
func (w *world) repeated(key string) int {
	n, _ := w.again.LoadOrStore(key, new(atomic.Int64))
	return int(n.(*atomic.Int64).Load())
}

// patiently makes a call again that the trail, or the store of sessions, could not take: on a
// machine that stands still for a second that may be, and nothing has run. Where the call shall
// be unavailable, only the trail's refusal is taken for such, which says when to come again.
func (w *world) patiently(ctx context.Context, key string, unavailable bool, make func() outcome) outcome {
	for {
		o := make()
		if o.reason != string(fault.Unavailable) || o.executed != "no" || unavailable && o.retryMs != 1000 {
			return o
		}
		select {
		case <-time.After(time.Second): // which the trail says
			n, _ := w.again.LoadOrStore(key, new(atomic.Int64))
			n.(*atomic.Int64).Add(1)
		case <-ctx.Done():
			return o
		}
	}
}

// keepTrail starts the audit service on a database of its own.
func (w *world) keepTrail(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*answerTime)
	defer cancel()
	// Messages that a loaded machine delivers too late come again after that.
	s, err := audit.New(ctx, audit.Env{DataEnv: service.DataEnv{Env: service.Env{Log: bustest.Logger(t)}, DataDir: t.TempDir()}, AckWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Start(ctx, bustest.Connect(t, w.nats))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), answerTime)
		defer cancel()
		_ = r.Stop(ctx)
	})
}

// trail reads the whole audit trail, the beginnings of calls too; nil if the
// service is too busy for that now.
func (w *world) trail(t *testing.T) []trail.Row {
	t.Helper()
	var all []trail.Row
	for cursor := ""; ; {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.host+"/audit/list?all=true&limit=1000&cursor="+cursor, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Busbar-Audit", operatorToken)
		resp, err := w.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var page audit.Page
		err = json.UnmarshalRead(resp.Body, &page)
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusServiceUnavailable {
			return nil
		}
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("the trail cannot be read: %d %v", resp.StatusCode, err)
		}
		all = append(all, page.Events...)
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// loseTrail takes away what the edges record on.
func (w *world) loseTrail(t *testing.T) {
	t.Helper()
	nc, err := nats.Connect(w.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	s, err := js.Stream(t.Context(), "AUDIT")
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.MaxBytes = 1 // the audit service would make it again, were it gone
	if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// byToken knows ada by her token.
type byToken struct{}

func (byToken) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	if c.Bearer != ada && c.Bearer != eve {
		return gateway.Principal{}, fault.New(fault.Unauthenticated, "a valid token is needed")
	}
	return gateway.Principal{Name: c.Bearer, Tenant: "acme"}, nil
}

// local is the Authenticator of an edge with one known client: stdio has no credentials.
type local string

func (l local) Authenticate(ctx context.Context, _ gateway.Credentials) (gateway.Principal, error) {
	return byToken{}.Authenticate(ctx, gateway.Credentials{Bearer: string(l)})
}

// policy refuses calls of some tools, and counts those that a limit was asked
// for.
type policy struct {
	gateway.Open
	full *gateway.InFlight

	mu    sync.Mutex
	asked map[string]int // by key
}

func (*policy) Authorize(_ context.Context, c gateway.View) error {
	if c.Principal.Name == eve && (c.Method == mcp.MethodToolsCall && c.Name != "look" || strings.Contains(c.Name, "hidden")) {
		return gateway.ErrUnseen
	}
	if c.Name == "private" {
		return fault.New(fault.Forbidden, "not for you")
	}
	return nil
}

func (p *policy) Acquire(ctx context.Context, c gateway.View) (func(), error) {
	p.mu.Lock()
	p.asked[keyIn(c.Arguments)]++
	p.mu.Unlock()
	switch c.Name {
	case "often":
		e := fault.New(fault.RateLimited, "too many calls")
		e.RetryAfter = 1500 * time.Millisecond
		return nil, e
	case "crowded":
		return p.full.Acquire(ctx, c)
	}
	return func() {}, nil
}

// admissions is how often a limit was asked whether the call with the key may
// pass.
func (p *policy) admissions(key string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[key]
}

// keyIn is the member key of arguments, or empty.
func keyIn(arguments []byte) string {
	var in struct {
		Key string `json:"key"`
	}
	_ = json.Unmarshal(arguments, &in)
	return in.Key
}

// answerTime is how long anything may take.
const answerTime = bustest.Patience
