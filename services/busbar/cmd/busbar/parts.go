package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/examples/weather"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/batch"
	"github.com/busbar-mcp/busbar/services/github"
	"github.com/busbar-mcp/busbar/services/model"
	"github.com/busbar-mcp/busbar/services/planning"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/text"
	"github.com/busbar-mcp/busbar/services/workspace"
)

// part is one service of a whole system, and the command that runs it alone.
type part struct {
	name, command, help string
	// powers are what the service may do on the bus besides what every service may.
	powers []permission.Power
	program
}

// program is a service.Command, whatever the settings of its service are.
type program interface {
	Build(ctx context.Context, env service.DataEnv) (*service.Service, error)
}

func newPart[E service.Environment](name string, build service.Build[E], powers ...permission.Power) part {
	return part{name, name, "Run one instance of the " + name + " service", powers, service.NewCommand(name, build)}
}

// parts are the services that have commands of their own. "busbar batch" makes a
// batch, and "busbar audit" reads the trail.
func parts() []part {
	sampler := newPart("model", model.New)
	sampler.help += ", for sampling; it needs BUSBAR_MODEL_PROVIDER"
	many := newPart("batch", batch.New, permission.Calls)
	many.command, many.help = "batch-service", many.help+", which gives models the tool batch"
	return []part{
		newPart("text", text.New),
		newPart("github", github.New),
		newPart("planning", planning.New, permission.Calls),
		newPart("prompt", prompt.New, permission.Refresh, permission.Store),
		newPart("resource", resource.New, permission.Store),
		newPart("workspace", workspace.New, permission.Tasks),
		newPart("weather", weather.New),
		sampler,
		many,
	}
}

// withoutFlag says which services of a whole system run.
type withoutFlag struct {
	Services []string `env:"BUSBAR_SERVICES" placeholder:"NAME" help:"Services to run, such as text,github; audit always runs. Default all."`
	Without  []string `env:"BUSBAR_WITHOUT" placeholder:"NAME" help:"Services that do not run, such as weather."`
}

// Validate implements kong's interface.
func (f withoutFlag) Validate() error {
	known := names(parts())
	for flag, said := range map[string][]string{"--services": f.Services, "--without": f.Without} {
		for _, name := range said {
			if !slices.Contains(known, name) {
				return fmt.Errorf("%s %s: it is one of %s", flag, name, strings.Join(known, ", "))
			}
		}
	}
	return nil
}

// system is what a whole system runs: the services that are asked for, or every one, but
// those left out, and the model service only where a provider is set.
func (f withoutFlag) system(keepTrail service.Build[audit.Env], openWorkspace service.Build[workspace.Env]) ([]part, error) {
	all := []part{newPart("audit", keepTrail, permission.Audit, permission.Store)}
	hasModel := os.Getenv("BUSBAR_MODEL_PROVIDER") != ""
	if slices.Contains(f.Services, "model") && !hasModel {
		return nil, errors.New("--services model: the model service needs BUSBAR_MODEL_PROVIDER")
	}
	for _, p := range parts() {
		switch {
		case len(f.Services) > 0 && !slices.Contains(f.Services, p.name), slices.Contains(f.Without, p.name), p.name == "model" && !hasModel:
		case p.name == "workspace":
			all = append(all, newPart(p.name, openWorkspace, p.powers...))
		default:
			all = append(all, p)
		}
	}
	return all, nil
}

// users are the services as the bus knows them.
func users(parts []part) (users []permission.User) {
	for _, p := range parts {
		u, err := permission.Of(p.name, p.powers...)
		if err != nil {
			panic(err) // a name or a power above is wrong
		}
		users = append(users, u)
	}
	return users
}

func names(parts []part) (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}
