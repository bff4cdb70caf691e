module github.com/busbar-mcp/busbar/services/text

go 1.26.0

require (
	github.com/clipperhouse/uax29/v2 v2.7.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
