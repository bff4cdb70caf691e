package graphql

import (
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/pages"
)

// servePage shows GraphiQL, which sends queries to where it is.
func servePage(w http.ResponseWriter) { pages.Show(w, "graphql") }
