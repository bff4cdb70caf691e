// Command audit keeps the audit trail of a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
)

func main() { service.Main("audit", audit.New) }
