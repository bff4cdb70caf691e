// Command crowd runs many services in one process, each on a connection of its own and
// with ten tools of ordinary length.
//
//	crowd URL SERVICES
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/service"
)

type text struct {
	Text string `json:"text" jsonschema:"What is to be looked at, in any language and of any length"`
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if len(os.Args) != 3 {
		log.Fatal("usage: crowd URL SERVICES")
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	for i := range n {
		if err := start(ctx, os.Args[1], fmt.Sprintf("crowd%d", i)); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("crowd is ready: nats=" + os.Args[1])
	<-ctx.Done()
}

func start(ctx context.Context, url, name string) error {
	conn, err := bus.Connect(ctx, bus.Config{URL: url, Name: name, User: name})
	if err != nil {
		return err
	}
	s := service.New(name)
	for t := range 10 {
		service.AddTool(s, service.Tool{
			Name: fmt.Sprintf("%s_tool%d", name, t), Title: "A tool of " + name, ReadOnly: true,
			Description: strings.Repeat("Looks at a text and says what is in it. ", 4),
		}, func(_ context.Context, _ *service.Call, in text) (text, error) { return in, nil })
	}
	_, err = s.Start(ctx, conn)
	return err
}
