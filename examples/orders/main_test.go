package main

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

func TestOrders(t *testing.T) {
	bus := servicetest.Start(t, servicetest.Build(t, build, service.Env{})).As("ada", "")
	if o, err := servicetest.Call[order](bus, "orders_place", placing{Item: "lamp", Quantity: 2}); err != nil || o != (order{1, "ada", "lamp", 2, "open"}) {
		t.Fatal(o, err)
	}
	if r := bus.Call("orders_place", `{"item":"chair"}`); r.Err != nil || r.IsError {
		t.Error("the default quantity:", r.Text, r.Err)
	}
	for want, r := range map[string]*servicetest.Result{
		"quantity: only 3 are left": bus.Call("orders_place", placing{Item: "lamp", Quantity: 4}),
		`there is no "moon"`:        bus.Call("orders_place", placing{Item: "moon", Quantity: 1}),
		"there is no order 9":       bus.Call("orders_get", which{9}),
		"order 1 is not yours":      bus.As("bob", "").Approve(true).WithoutTasks().Call("orders_ship", which{1}),
		"order 1 stays":             bus.Decline("why").Call("orders_cancel", which{1}),
	} {
		if !r.IsError || !strings.Contains(r.Text, want) {
			t.Error(want, r.Text, r.Err)
		}
	}
	if r := bus.Call("orders_place", placing{Item: "lamp", Quantity: 101}); r.Err == nil {
		t.Error("more than an order may have:", r.Text)
	}
	if r := bus.Answer("why", reason{Reason: "late"}).Call("orders_cancel", which{2}); !strings.Contains(r.Text, "cancelled") {
		t.Error(r.Text, r.Err)
	}
	if r := bus.Approve(true).Task("orders_ship", which{1}).Wait(); !strings.Contains(r.Text, "shipped") {
		t.Error(r.Text, r.Err)
	}
	if r := bus.Approve(true).WithoutTasks().Call("orders_ship", which{1}); r.Text != "order 1 is shipped" || len(r.Progress) != 1 {
		t.Error(r.Text, r.Err, r.Progress)
	}
	if all, err := servicetest.Call[list](bus, "orders_list", filter{"shipped"}); err != nil || len(all.Orders) != 1 {
		t.Error(all, err)
	}
	for uri, want := range map[string]string{"orders://open": `[]`, "orders://shipped": `[{"id":1,`, "orders://id/2": `"status":"cancelled"`} {
		if got, err := bus.Read(uri); err != nil || !strings.Contains(got[0].Text, want) {
			t.Error(uri, got, err)
		}
	}
	if got, err := bus.Prompt("orders_complaint", map[string]string{"id": "1"}); err != nil || got[0].Text != `Write a polite letter about order 1: 2 of "lamp", which is shipped.` {
		t.Error(got, err)
	}
	if got, err := bus.CompletePrompt("orders_complaint", "tone", "f", nil); err != nil || len(got) != 1 || got[0] != "firm" {
		t.Error(got, err)
	}
}
