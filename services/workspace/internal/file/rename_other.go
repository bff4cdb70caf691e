//go:build !linux

package file

import (
	"os"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// rename moves from to to. Go has no rename between open directories for this system,
// so the way there is followed once more; it stays in the root.
func rename(from, to root.Place, _, _ *os.Root) error { return from.FS.Rename(from.Path, to.Path) }
