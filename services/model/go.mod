module github.com/busbar-mcp/busbar/services/model

go 1.26.0

replace github.com/busbar-mcp/busbar/libs => ../../libs
