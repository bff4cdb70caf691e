package servicetest_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

type tenantKey struct{}

// Middleware stands around every handler, the first one outermost: it sees each call and its end,
// sets the context, and may refuse the call.
func TestMiddleware(t *testing.T) {
	t.Parallel()
	var heard []string
	s := service.New("svc", quietly, service.WithNamespace("shop"), service.WithMiddleware(
		func(ctx context.Context, c *service.Call, next func(context.Context) error) error {
			if c.Name() == "shop_silent" {
				return nil
			}
			err := next(context.WithValue(ctx, tenantKey{}, c.Tenant()))
			text := "ok"
			if err != nil {
				text = err.Error()
			}
			heard = append(heard, c.Method()+" "+c.Name()+": "+text)
			return err
		},
		func(ctx context.Context, c *service.Call, next func(context.Context) error) error {
			if c.Tenant() == "evil" {
				return service.Forbidden("not you")
			}
			return next(ctx)
		}))
	add := func(name string, err error) {
		service.AddTool(s, service.Tool{Name: name, ReadOnly: true}, func(ctx context.Context, _ *service.Call, _ struct{}) (string, error) {
			return ctx.Value(tenantKey{}).(string), err
		})
	}
	add("who", nil)
	add("lost", service.NotFound("it is lost"))
	add("broken", errors.New("secret"))
	add("silent", nil)
	s.AddResource(mcp.Resource{URI: "x:1", Name: "one"}, func(ctx context.Context, _ *service.Call, _ string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{Text: ctx.Value(tenantKey{}).(string)}}, nil
	})
	b := servicetest.Start(t, s).As("ada", "acme")
	if r := b.Call("shop_who", nil); r.Text != "acme" {
		t.Errorf("%+v", r)
	}
	if r := b.Call("shop_lost", nil); !r.IsError || r.Text != "it is lost" {
		t.Errorf("%+v", r)
	}
	if r := b.Call("shop_broken", nil); !fault.Is(r.Err, fault.Internal) {
		t.Errorf("%+v", r)
	}
	if r := b.Call("shop_silent", nil); !fault.Is(r.Err, fault.Internal) {
		t.Errorf("a handler that was not called: %+v", r)
	}
	if got, err := b.Read("x:1"); err != nil || got[0].Text != "acme" {
		t.Errorf("%v %v", got, err)
	}
	if r := b.As("bob", "evil").Call("shop_who", nil); !r.IsError || r.Text != "not you" {
		t.Errorf("%+v", r)
	}
	if _, err := b.As("bob", "evil").Read("x:1"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("%v", err)
	}
	if want := []string{"tools/call shop_who: ok", "tools/call shop_lost: it is lost", "tools/call shop_broken: secret", "resources/read x:1: ok", "tools/call shop_who: not you", "resources/read x:1: not you"}; !slices.Equal(heard, want) {
		t.Errorf("%q", heard)
	}
}

// Several versions of a tool are served side by side, in whatever order they were added; the newest
// has the plain name.
func TestVersionsOfATool(t *testing.T) {
	t.Parallel()
	s := service.New("svc", quietly, service.WithNamespace("shop"))
	version := func(name string, n int) {
		service.AddTool(s, service.Tool{Name: name, Version: n, ReadOnly: true}, func(context.Context, *service.Call, struct{}) (int, error) { return n, nil })
	}
	for _, n := range []int{2, 1, 3} {
		version("place", n)
	}
	b := servicetest.Start(t, s)
	for name, want := range map[string]int{"shop_place": 3, "shop_place_v2": 2, "shop_place_v1": 1} {
		if got, err := servicetest.Call[int](b, name, nil); err != nil || got != want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	if r := b.Call("shop_place_v3", nil); !fault.Is(r.Err, fault.UnknownTool) {
		t.Errorf("%+v", r)
	}
	wrong := service.New("wrong", quietly)
	s = wrong
	version("twice", 1)
	version("twice", 1)
	version("mixed", 1)
	version("mixed", 0)
	version("negative", -1)
	version("taken_v1", 0)
	version("taken", 1)
	version("taken", 2)
	version("older", 1)
	version("older", 2)
	version("older_v1", 3)
	_, err := wrong.Start(t.Context(), bustest.Connect(t, bustest.Server(t)))
	if want := "service wrong is not well formed: tool twice: added twice\ntool mixed: added twice\ntool negative: a version is 1 or more\n" +
		"tool taken: version 1 needs the name taken_v1, which another tool has\ntool older_v1: added twice"; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
