package prompt

import (
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/prompt/internal/store"
)

// Schema returns the version of the tables in this release.
func Schema() database.Schema { return store.Schema() }
