package graphql

import (
	_ "embed"
	"net/http"

	"github.com/busbar-mcp/busbar/services/edge/door"
)

// page sends a query and shows the answer. It loads nothing from elsewhere.
//
//go:embed page.html
var page string

var policy = door.PagePolicy(page)

func servePage(w http.ResponseWriter) { door.Page(w, policy, []byte(page)) }
