// Command model serves a model on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/model"
)

func main() { service.Main("model", model.New) }
