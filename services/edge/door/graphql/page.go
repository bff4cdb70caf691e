package graphql

import (
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/pages"
)

// servePage shows GraphiQL, which sends queries to the page's own path.
func servePage(w http.ResponseWriter) { pages.Show(w, "graphql") }
