// Command weather serves forecasts and alerts on a Busbar bus.
package main

import (
	"github.com/busbar-mcp/busbar/examples/weather"
	"github.com/busbar-mcp/busbar/libs/service"
)

func main() { service.Main("weather", weather.New) }
