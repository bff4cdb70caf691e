package main

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The one tool of both does the same as text_processor of Busbar's text service.
const tool = "text_processor"

type (
	in struct {
		Operation   string   `json:"operation" jsonschema:"Operation to perform"`
		Text        string   `json:"text" jsonschema:"Text to process"`
		StatOptions []string `json:"stat_options,omitempty" jsonschema:"What to measure"`
	}
	out struct {
		Operation string `json:"operation"`
		Chars     int    `json:"chars"`
	}
)

func count(i in) out { return out{i.Operation, utf8.RuneCountInString(i.Text)} }

// sdkServer is the official SDK's, which has sessions, or clients of 2026-07-28. Both get
// plain JSON.
func sdkServer(sessions bool) http.Handler {
	s := sdk.NewServer(&sdk.Implementation{Name: "peer", Version: "0.0.0"}, nil)
	sdk.AddTool(s, &sdk.Tool{Name: tool}, func(_ context.Context, _ *sdk.CallToolRequest, i in) (*sdk.CallToolResult, out, error) {
		return nil, count(i), nil
	})
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{JSONResponse: true, Stateless: !sessions})
}

// mcpGoServer is mcp-go's, which checks arguments and results by their schemas as the
// others do.
func mcpGoServer() http.Handler {
	s := server.NewMCPServer("peer", "0.0.0", server.WithInputSchemaValidation(), server.WithOutputSchemaValidation())
	s.AddTool(mcp.NewTool(tool, mcp.WithInputSchema[in](), mcp.WithOutputSchema[out]()),
		mcp.NewStructuredToolHandler(func(_ context.Context, _ mcp.CallToolRequest, i in) (out, error) { return count(i), nil }))
	return server.NewStreamableHTTPServer(s)
}
