// Package programs builds the programs that tests run, in the form in which they are shipped. It
// builds each once for all packages, because linking takes longer than most tests. Start at Build.
package programs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gofrs/flock"
)

// built are the programs that this process has built.
var (
	mu    sync.Mutex
	built = map[string]bool{}
)

// Build brings the programs of these packages, such as ./services/edge/cmd/edge, up to date in
// .tmp/programs of the repository, and returns the path of each. root is the directory of go.work.
func Build(root string, packages ...string) (programs []string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return nil, err
	}
	dir := filepath.Join(root, ".tmp", "programs")
	mu.Lock()
	defer mu.Unlock()
	for _, p := range packages {
		programs = append(programs, filepath.Join(dir, path.Base(p)))
	}
	// The go command needs a second of processor time to find out whether a program is up to date.
	packages = slices.DeleteFunc(slices.Clone(packages), func(p string) bool { return built[root+p] })
	if len(packages) == 0 {
		return programs, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	// One process at a time: others use the programs that the first one has linked.
	lock := flock.New(filepath.Join(dir, ".lock"))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s", "-o", dir + "/"}, packages...)...)
	build.Dir = root
	build.Env = append(os.Environ(), "GOWORK="+filepath.Join(root, "go.work"), "GOFLAGS=", "CGO_ENABLED=0")
	out, failed := build.CombinedOutput()
	if failed != nil {
		failed = fmt.Errorf("build the programs: %w\n%s", failed, out)
	}
	if err := errors.Join(failed, lock.Unlock()); err != nil {
		return nil, err
	}
	for _, p := range packages {
		built[root+p] = true
	}
	return programs, nil
}
