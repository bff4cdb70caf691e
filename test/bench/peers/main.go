// Command peers runs the servers that Busbar is compared with: the floor, which does only the steps
// that no MCP server on a bus can leave out, and servers of MCP in one process without a bus. It is
// a module of its own, so its dependencies are in no go.sum of ours.
//
//	peers floor            HTTP, NATS over TCP and a subscriber in one process
//	peers floor-edge URL   HTTP and a connection to the NATS server at URL
//	peers floor-service URL
//	peers bytes            HTTP alone
//	peers sdk              the official SDK's server
//	peers sdk-sessions     the same for clients before 2026-07-28
//	peers mcp-go           mcp-go's server
//	peers nothing          an embedded NATS server; ends when standard input does
//
// The first four answer with the bytes of the files that the variable ANSWER lists, separated by
// colons: a request for /mcp with the first, /mcp/1 with the second. Each prints "peer is ready:"
// and its address when it is, and ends on SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if len(args) == 0 {
		return errors.New("say which peer; see the comment of main.go")
	}
	name, url := args[0], ""
	if len(args) > 1 {
		url = args[1]
	}
	switch name {
	case "floor":
		return floor(ctx)
	case "floor-edge":
		return floorEdge(ctx, url)
	case "floor-service":
		return floorService(ctx, url)
	case "bytes":
		return bytesAlone(ctx)
	case "sdk":
		return serve(ctx, sdkServer(false))
	case "sdk-sessions":
		return serve(ctx, sdkServer(true))
	case "mcp-go":
		return serve(ctx, mcpGoServer())
	case "nothing":
		return nothing()
	}
	return fmt.Errorf("there is no peer %q", name)
}

// serve runs a handler on a real listener, with the time limits that no server should be
// without, for all alike.
func serve(ctx context.Context, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, ErrorLog: log.New(io.Discard, "", 0)}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	fmt.Printf("peer is ready: mcp=http://%s/mcp\n", l.Addr())
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return srv.Close()
	}
}

// answers returns the answers of the floor.
func answers() (all [][]byte, err error) {
	for name := range strings.SplitSeq(os.Getenv("ANSWER"), ":") {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

// which answer a request is for.
func which(r *http.Request) string {
	_, n, found := strings.Cut(r.URL.Path[1:], "/")
	if !found {
		return "0"
	}
	return n
}
