module github.com/busbar-mcp/busbar/examples/hello

go 1.26.0
