// Package resource tests the resource service behind edges, with the official client, modern and
// legacy.
package resource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
	wait   = time.Minute
)

func TestMain(m *testing.M) { os.Exit(databasetest.Main(m)) }

// startEdge puts an edge on a bus and returns its MCP endpoint.
func startEdge(t testing.TB, bus string) string {
	t.Helper()
	e, err := edge.New(t.Context(), bustest.Join(t, bus), edge.Config{Version: "1.0.0", Logger: slog.New(slog.DiscardHandler), Audit: edge.Audit{Token: operatorToken}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	srv := httptest.NewServer(e.Handler(door.Guard{Loopback: true}))
	t.Cleanup(srv.Close)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := e.Await(ctx, "resource"); err != nil {
		t.Fatal(err)
	}
	return srv.URL + "/mcp"
}

// startInstance puts an instance of the service on a bus.
func startInstance(t testing.TB, bus string, cfg resource.Env) {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	servicetest.Join(t, bustest.Connect(t, bus), servicetest.Build(t, resource.New, cfg))
}

// client is one of the official SDK.
type client struct {
	*mcp.ClientSession
	t       testing.TB
	updated chan string
	listed  chan struct{}
}

func connect(t testing.TB, url, version string) *client {
	t.Helper()
	c := &client{t: t, updated: make(chan string, 1024), listed: make(chan struct{}, 1024)}
	sdk := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1.0.0"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { c.updated <- r.Params.URI },
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) {
			select {
			case c.listed <- struct{}{}:
			default:
			}
		},
	})
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := bustest.Heard(t, func() (err error) {
		c.ClientSession, err = sdk.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, &mcp.ClientSessionOptions{ProtocolVersion: version})
		return err
	}); err != nil {
		t.Fatalf("connect in %s: %v", version, err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// subscribe has the client hear of a resource.
func (c *client) subscribe(uri string) {
	c.t.Helper()
	if err := bustest.Heard(c.t, func() error { return c.Subscribe(c.t.Context(), &mcp.SubscribeParams{URI: uri}) }); err != nil {
		c.t.Fatalf("subscribe: %v", err)
	}
}

// read is resources/read.
func (c *client) read(uri string) (r *mcp.ReadResourceResult, err error) {
	c.t.Helper()
	err = bustest.Heard(c.t, func() (err error) {
		r, err = c.ReadResource(c.t.Context(), &mcp.ReadResourceParams{URI: uri})
		return err
	})
	return r, err
}

// list is resources/list.
func (c *client) list(cursor string) (r *mcp.ListResourcesResult, err error) {
	c.t.Helper()
	err = bustest.Heard(c.t, func() (err error) {
		r, err = c.ListResources(c.t.Context(), &mcp.ListResourcesParams{Cursor: cursor})
		return err
	})
	return r, err
}

// call calls a tool that must succeed.
func (c *client) call(tool string, arguments map[string]any) map[string]any {
	c.t.Helper()
	var result *mcp.CallToolResult
	err := bustest.Heard(c.t, func() (err error) {
		result, err = c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
		return err
	})
	if err != nil || result.IsError {
		c.t.Fatalf("%s: %+v %v", tool, result, err)
	}
	out, _ := result.StructuredContent.(map[string]any)
	return out
}

// hears repeats something until it is heard of: a stream may not be open yet
// when its client has connected.
func hears[V any](t *testing.T, who string, c <-chan V, do func()) V {
	t.Helper()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		do()
		select {
		case v := <-c:
			return v
		case <-time.After(500 * time.Millisecond):
		}
	}
	t.Fatalf("%s hears nothing", who)
	panic("unreachable")
}

// engines are the databases, each for the instances of one bus.
var engines = map[string]struct {
	instances int
	config    func(*testing.T) resource.Env
}{
	"postgres": {2, func(t *testing.T) resource.Env {
		return resource.Env{DataEnv: service.DataEnv{DatabaseURL: databasetest.Postgres(t)}}
	}},
	"sqlite": {1, func(t *testing.T) resource.Env {
		return resource.Env{DataEnv: service.DataEnv{DataDir: t.TempDir()}}
	}},
}

// TestUpdatesReachEverybody: what anybody changes through any instance and edge, modern and legacy
// clients hear at any other.
func TestUpdatesReachEverybody(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus, cfg := bustest.Server(t), engine.config(t)
			for range engine.instances {
				startInstance(t, bus, cfg)
			}
			edges := []string{startEdge(t, bus), startEdge(t, bus)}
			const uri = "example://document1"
			writer := connect(t, edges[1], legacy)
			writer.call("create_resource", map[string]any{"uri": uri, "text": "1"})
			listeners := map[string]*client{}
			for _, version := range []string{legacy, modern} {
				c := connect(t, edges[0], version)
				c.subscribe(uri)
				listeners[version] = c
			}
			n := 0
			for version, c := range listeners {
				got := hears(t, version, c.updated, func() {
					n++
					writer.call("update_resource", map[string]any{"uri": uri, "text": fmt.Sprint(n)})
				})
				if got != uri {
					t.Errorf("%s hears of %s", version, got)
				}
				hears(t, version, c.listed, func() {
					n++
					writer.call("create_resource", map[string]any{"uri": fmt.Sprintf("more:%d", n), "text": "x"})
				})
				read, err := c.read(uri)
				if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "text/plain" {
					t.Errorf("%s reads %+v %v", version, read, err)
				}
			}
			// Each update is told, by whichever instance made it, and nothing else is.
			for i := range 10 {
				writer.call("update_resource", map[string]any{"uri": uri, "text": fmt.Sprint("x", i)})
				writer.call("update_resource", map[string]any{"uri": "more:" + fmt.Sprint(n), "text": fmt.Sprint("x", i)})
				for version, c := range listeners {
					select {
					case got := <-c.updated:
						if got != uri {
							t.Errorf("%s hears of %s", version, got)
						}
					case <-time.After(wait):
						t.Fatalf("%s does not hear of update %d", version, i)
					}
				}
			}
		})
	}
}

// many are more stored resources than some pages hold.
const many = 2_000

// TestManyResources: a client reads many stored resources through pages, in order,
// each once.
func TestManyResources(t *testing.T) {
	t.Parallel()
	for name, engine := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus, cfg := bustest.Server(t), engine.config(t)
			fill(t, cfg)
			startInstance(t, bus, cfg)
			url := startEdge(t, bus)
			for _, version := range []string{legacy, modern} {
				c := connect(t, url, version)
				begin, pages := time.Now(), 0
				var got []string
				for cursor := ""; ; pages++ {
					page, err := c.list(cursor)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range page.Resources {
						got = append(got, r.URI)
					}
					if cursor = page.NextCursor; cursor == "" {
						break
					}
				}
				t.Logf("%s: %d resources in %d pages, %v", version, len(got), pages+1, time.Since(begin))
				if len(got) != many || pages < 2 || !slices.IsSorted(got) || len(slices.Compact(got)) != many {
					t.Errorf("%d resources", len(got))
				}
				_, err := c.list("forged")
				if code(err) != -32602 {
					t.Errorf("a forged cursor: %v", err)
				}
				_, err = c.read("none:1")
				if want := map[string]int64{legacy: -32002, modern: -32602}[version]; code(err) != want {
					t.Errorf("a URI that is not stored: %v", err)
				}
			}
		})
	}
}

// fill stores many resources in one statement: through the store it takes seconds.
func fill(t *testing.T, cfg resource.Env) {
	t.Helper()
	statement := `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ` + strconv.Itoa(many) + `)
		INSERT INTO resource (tenant, uri, name, title, description, mime_type, annotations, is_binary, size, revision, created, updated, names, about, words, content)
		SELECT '', 'many:' || CAST(100000 + i AS text), 'n', '', '', 'text/plain', 'null', false, 0, 1, 0, 0, 'n', '', '', '' FROM n`
	place := database.Config{URL: cfg.DatabaseURL, File: cfg.File("resource.db")}
	s, err := table.Open(t.Context(), place, table.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	place.Owner, place.Work = "test", time.Minute
	db, err := database.Open(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Write(t.Context(), func(ctx context.Context, tx database.Tx) error {
		_, err := tx.Exec(ctx, statement)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func code(err error) int64 {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// TestDatabaseAway: while Postgres is away its calls say so at once, other
// things go on, and all is well when it is back, with no event lost.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	server := databasetest.Own(t)
	bus := bustest.Server(t)
	startInstance(t, bus, resource.Env{DataEnv: service.DataEnv{DatabaseURL: server.URL()}})
	url := startEdge(t, bus)
	c := connect(t, url, legacy)
	c.call("create_resource", map[string]any{"uri": "a:1", "text": "1"})
	c.subscribe("a:1")
	hears(t, "the client", c.updated, func() { c.call("update_resource", map[string]any{"uri": "a:1", "text": "2"}) })

	server.Kill()
	begin := time.Now()
	_, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "update_resource", Arguments: map[string]any{"uri": "a:1", "text": "3"}})
	var e *jsonrpc.Error
	if !errors.As(err, &e) || e.Code != 1503 || time.Since(begin) > bustest.Promptly {
		t.Fatalf("%v after %v", err, time.Since(begin))
	}
	var data struct{ Reason, Executed string }
	if err := json.Unmarshal(e.Data, &data); err != nil || data.Reason != "unavailable" || data.Executed != "no" || strings.Contains(e.Message, "127.0.0.1") {
		t.Errorf("%s %s", e.Message, e.Data)
	}
	if _, err := c.ListResources(t.Context(), nil); code(err) != 1503 {
		t.Errorf("list: %v", err)
	}
	if tools, err := c.ListTools(t.Context(), nil); err != nil || len(tools.Tools) != 6 {
		t.Errorf("tools: %v", err)
	}

	server.Start(t)
	bustest.Eventually(t, "it is written again", func() bool {
		r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "update_resource", Arguments: map[string]any{"uri": "a:1", "text": "3"}})
		return err == nil && !r.IsError
	})
	select {
	case got := <-c.updated:
		if got != "a:1" {
			t.Errorf("hears of %s", got)
		}
	case <-time.After(wait):
		t.Error("the update is not heard of")
	}
}
