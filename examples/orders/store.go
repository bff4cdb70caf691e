package main

import (
	"maps"
	"slices"
	"sync"

	"github.com/busbar-mcp/busbar/libs/service"
)

type order struct {
	ID       int    `json:"id"`
	Customer string `json:"customer"`
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
	Status   string `json:"status" schema:"enum=open|shipped|cancelled"`
}

// maxOrders bounds what callers can fill.
const maxOrders = 10_000

// store has the orders of one process; a real one is a database.
type store struct {
	mu     sync.Mutex
	orders map[int]order
	stock  map[string]int
}

func newStore() *store {
	return &store{orders: map[int]order{}, stock: map[string]int{"lamp": 5, "chair": 40}}
}

func (s *store) place(customer, item string, quantity int) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left, known := s.stock[item]
	switch {
	case !known:
		return order{}, service.NotFound("there is no %q; there are %q", item, slices.Sorted(maps.Keys(s.stock)))
	case quantity > left:
		return order{}, service.Invalid("quantity", "only %d are left", left)
	case len(s.orders) >= maxOrders:
		return order{}, service.Busy(0, "the shop takes no more orders today")
	}
	s.stock[item] -= quantity
	o := order{len(s.orders) + 1, customer, item, quantity, "open"}
	s.orders[o.ID] = o
	return o, nil
}

func (s *store) get(id int) (order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return o, service.NotFound("there is no order %d", id)
	}
	return o, nil
}

// close ends an open order of a customer.
func (s *store) close(id int, customer, status string) (order, error) {
	o, err := s.get(id)
	switch {
	case err != nil:
		return o, err
	case o.Customer != customer:
		return o, service.Forbidden("order %d is not yours", id)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if o = s.orders[id]; o.Status != "open" {
		return o, service.Conflict("order %d is %s", id, o.Status)
	}
	if o.Status = status; status == "cancelled" {
		s.stock[o.Item] += o.Quantity
	}
	s.orders[id] = o
	return o, nil
}

func (s *store) list(status string) []order {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []order{}
	for id := range len(s.orders) {
		if o := s.orders[id+1]; o.Status == status {
			all = append(all, o)
		}
	}
	return all
}
