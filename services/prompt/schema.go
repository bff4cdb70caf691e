package prompt

import (
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
)

// Schema is the version of the tables that this release makes.
func Schema() database.Schema { return store.Schema() }
