package resource

import (
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

// Schema is the version of the tables that this release makes.
func Schema() database.Schema { return table.Schema() }
