// Command prompt serves prompts on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/prompt"
)

func main() { service.Main("prompt", prompt.New) }
