module github.com/busbar-mcp/busbar/test

go 1.26.0

require (
	github.com/busbar-mcp/busbar/gen v0.0.0
	github.com/busbar-mcp/busbar/libs v0.0.0
	github.com/busbar-mcp/busbar/services/edge v0.0.0
	github.com/busbar-mcp/busbar/services/text v0.0.0
)

require (
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/modelcontextprotocol/go-sdk v1.8.0 // indirect
	github.com/nats-io/nats.go v1.55.0 // indirect
	github.com/nats-io/nkeys v0.4.16 // indirect
	github.com/nats-io/nuid v1.0.1 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/busbar-mcp/busbar/gen => ../gen

replace github.com/busbar-mcp/busbar/libs => ../libs

replace github.com/busbar-mcp/busbar/services/edge => ../services/edge

replace github.com/busbar-mcp/busbar/services/text => ../services/text
