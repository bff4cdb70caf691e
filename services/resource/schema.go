package resource

import (
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

// Schema is the version of the tables in this release.
func Schema() database.Schema { return table.Schema() }
