module github.com/busbar-mcp/busbar/test

go 1.26.0
