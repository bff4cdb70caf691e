//go:build !linux

package file

import (
	"os"

	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// rename moves from to to. Go cannot rename between open directories on this system, so it follows the
// paths once more; both stay in the root.
func rename(from, to root.Place, _, _ *os.Root) error { return from.FS.Rename(from.Path, to.Path) }
