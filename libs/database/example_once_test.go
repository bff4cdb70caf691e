package database_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing/fstest"

	"github.com/busbar-mcp/busbar/libs/database"
)

type purchase struct {
	Item string `json:"item"`
}

type bought struct {
	Number int    `json:"number"`
	Item   string `json:"item"`
}

type teaShop struct{ keys *database.Keys }

// buy is the handler of a tool with KeepsKeys; call is a *service.Call.
func (s teaShop) buy(ctx context.Context, call database.Call, in purchase) (bought, error) {
	type receipt = bought
	return database.Once(ctx, s.keys, call, in, func(ctx context.Context, tx database.Tx) (receipt, error) {
		out := receipt{Item: in.Item}
		if _, err := tx.Exec(ctx, "INSERT INTO shop_order (buyer, item) VALUES ($1, $2)", call.Principal(), in.Item); err != nil {
			return out, err
		}
		_, err := database.One(ctx, tx, "SELECT count(*) FROM shop_order", nil, &out.Number)
		return out, err
	})
}

// A call that is repeated with its key returns the first answer, and has no further effect.
func ExampleOnce() {
	dir, err := os.MkdirTemp("", "shop")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ctx := context.Background()
	db, err := database.Open(ctx, database.Config{
		File: filepath.Join(dir, "shop.db"), Owner: "shop", Holds: "orders",
		Migrations: fstest.MapFS{"both/00001_order.sql": {Data: []byte("-- +goose Up\nCREATE TABLE shop_order (buyer text NOT NULL, item text NOT NULL);\n")}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer db.Close()
	keys, err := database.OpenKeys(ctx, db, "shop", database.DefaultKeyLimits)
	if err != nil {
		fmt.Println(err)
		return
	}
	s := teaShop{keys}
	for _, key := range []string{"monday", "monday", "tuesday"} {
		fmt.Println(s.buy(ctx, &keyedCall{tool: "buy", caller: "ada", key: key}, purchase{"tea"}))
	}
	_, err = s.buy(ctx, &keyedCall{tool: "buy", caller: "ada", key: "monday"}, purchase{"coffee"})
	fmt.Println(err)
	// Output:
	// {1 tea} <nil>
	// {1 tea} <nil>
	// {2 tea} <nil>
	// the idempotency key was used for another call; take a new key for each call
}
