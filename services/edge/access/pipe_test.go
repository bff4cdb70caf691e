//go:build unix

package access_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/access"
)

// A file that is not regular is refused at once: a pipe that nobody writes to would keep
// its reader waiting.
func TestPolicyFileIsARegularFile(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, t.TempDir(), "/dev/zero"} {
		if _, err := access.Read(path); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
		if _, err := access.Open(path, bustest.Logger(t)); err == nil {
			t.Errorf("%s is taken for a policy", path)
		}
	}
}
