// Command prompt serves prompts on a Busbar bus.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt"
)

// version is set at build time: -ldflags "-X main.version=1.2.3".
var version = "0.0.0"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s, err := prompt.New(ctx, version, prompt.FromEnv())
	cancel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "prompt: %v\n", err)
		os.Exit(1)
	}
	defer s.Close()
	service.Main(s.Service)
}
