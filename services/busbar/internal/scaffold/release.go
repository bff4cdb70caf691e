package scaffold

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Released is the version of Busbar's modules that a program of a version goes with; empty
// for one that was built between releases.
func Released(program string) string {
	if v := "v" + program; semver.IsValid(v) && semver.Prerelease(v)+semver.Build(v) == "" {
		return v
	}
	return ""
}

// sdk are the modules that a service requires: they say which others they need.
var sdk = []string{"github.com/busbar-mcp/busbar/libs", "github.com/busbar-mcp/busbar/libs/service/servicetest"}

// goOfRelease is the release of Go that the modules ask for, at least.
const goOfRelease = "1.26.0"

// requires is the go.mod of a module that has the modules by their version.
func requires(module, version string) ([]byte, error) {
	if semver.Canonical(version) != version {
		return nil, fmt.Errorf("--release %s: a version is v and three numbers, such as v1.2.3", version)
	}
	mod := new(modfile.File)
	if err := mod.AddModuleStmt(module); err != nil {
		return nil, err
	}
	if err := mod.AddGoStmt(goOfRelease); err != nil {
		return nil, err
	}
	for _, path := range slices.Backward(sdk) { // each is added above the others
		if err := apart(module, path); err != nil {
			return nil, err
		}
		mod.AddNewRequire(path, version, false)
	}
	mod.SortBlocks()
	mod.Cleanup()
	return mod.Format()
}

// apart refuses the path of a module that is, or is in, what it depends on.
func apart(module, path string) error {
	if strings.HasPrefix(module+"/", path+"/") {
		return fmt.Errorf("--module %s: that is what the service depends on", module)
	}
	return nil
}
