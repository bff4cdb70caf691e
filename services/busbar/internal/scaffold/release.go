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

// modules are those that a service requires: they say which others they need.
func modules(o Options) []string {
	all := []string{"github.com/busbar-mcp/busbar/libs"}
	if o.Database {
		all = append(all, "github.com/busbar-mcp/busbar/libs/database")
	}
	return append(all, "github.com/busbar-mcp/busbar/libs/service/servicetest")
}

// goOfRelease is the release of Go that the modules ask for, at least.
const goOfRelease = "1.26.0"

// requires is the go.mod of a service that has the modules by their version.
func requires(o Options) ([]byte, error) {
	module, version := o.Module, o.Release
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
	for _, path := range slices.Backward(modules(o)) { // each is added above the others
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
