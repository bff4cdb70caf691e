module github.com/busbar-mcp/busbar/services/edge

go 1.26.0
