module github.com/busbar-mcp/busbar/services/resource

go 1.26.0

require (
	github.com/busbar-mcp/busbar/gen v0.0.0
	github.com/busbar-mcp/busbar/libs v0.0.0
)

replace (
	github.com/busbar-mcp/busbar/gen => ../../gen
	github.com/busbar-mcp/busbar/libs => ../../libs
)
