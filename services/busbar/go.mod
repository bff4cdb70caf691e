module github.com/busbar-mcp/busbar/services/busbar

go 1.26.0
