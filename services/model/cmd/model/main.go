// Command model serves a model on a Busbar bus.
package main

import (
	"fmt"
	"os"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model"
)

// version is set at build time: -ldflags "-X main.version=1.2.3".
var version = "0.0.0"

func main() {
	s, err := model.New(version, model.FromEnv())
	if err != nil {
		fmt.Fprintf(os.Stderr, "model: %v\n", err)
		os.Exit(1)
	}
	service.Main(s)
}
