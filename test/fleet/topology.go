// Package fleet runs the topology of docker-compose.yml as processes of this machine,
// for those who have no container engine, and for tests that kill parts of it.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

// topology is the content of docker-compose.yml, with its profiles.
type topology struct {
	project *types.Project
	// parts in the order in which they start.
	parts []types.ServiceConfig
}

// load reads the compose files of a checkout with some profiles, separated by commas. Without
// files it reads those that Docker Compose reads: COMPOSE_FILE, which .env may set, or
// docker-compose.yml and its override.
func load(ctx context.Context, root, profiles string, files ...string) (*topology, error) {
	wanted := strings.Split(profiles, ",")
	options, err := cli.NewProjectOptions(files, cli.WithWorkingDirectory(root), cli.WithDefaultProfiles(wanted...), withoutCollector,
		cli.WithOsEnv, cli.WithEnvFiles(), cli.WithDotEnv, cli.WithConfigFileEnv, cli.WithDefaultConfigPath)
	if err != nil {
		return nil, err
	}
	project, err := options.LoadProject(ctx)
	if err != nil {
		return nil, fmt.Errorf("docker-compose.yml: %w", err)
	}
	t := &topology{project: project}
	known := map[string]bool{}
	for _, part := range project.AllServices() {
		for _, name := range part.Profiles {
			known[name] = true
		}
	}
	for _, name := range wanted {
		if !known[name] {
			return nil, fmt.Errorf("docker-compose.yml has no profile %q; it has %s", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	// Dependencies come first; of equals, the names decide.
	placed := map[string]bool{}
	var place func(name string)
	place = func(name string) {
		part, there := project.Services[name]
		if placed[name] || !there {
			return
		}
		placed[name] = true
		for _, dependency := range slices.Sorted(maps.Keys(part.DependsOn)) {
			place(dependency)
		}
		t.parts = append(t.parts, part)
	}
	names := project.ServiceNames()
	slices.Sort(names)
	// Parts that accept connections from others start before them.
	slices.SortStableFunc(names, func(a, b string) int {
		return len(project.Services[b].Expose) - len(project.Services[a].Expose)
	})
	for _, name := range names {
		place(name)
	}
	return t, nil
}

// needed returns the named parts with their dependencies, in the order in which they start; all
// parts if none is named.
func (t *topology) needed(names []string) (parts []types.ServiceConfig) {
	if len(names) == 0 {
		return t.parts
	}
	names = slices.Clone(names)
	for _, part := range slices.Backward(t.parts) {
		if slices.Contains(names, part.Name) {
			names = append(names, part.GetDependencies()...)
			parts = append(parts, part)
		}
	}
	slices.Reverse(parts)
	return parts
}

// withoutCollector has traces sent nowhere, unless this machine's environment says where:
// the file's collector is a container.
func withoutCollector(o *cli.ProjectOptions) error {
	const name = "OTEL_EXPORTER_OTLP_ENDPOINT"
	o.Environment[name] = os.Getenv(name)
	return nil
}

// program returns the program of an image, as this machine has it. name is the program's file, and
// source the package that it is built from: in the directory of the part's build if it begins with
// a dot. source is empty if the program has to be installed.
func program(part types.ServiceConfig) (name, source string) {
	image, _, _ := strings.Cut(path.Base(part.Image), ":")
	switch {
	case part.Build != nil && part.Build.Args["PROGRAM"] != nil:
		source = *part.Build.Args["PROGRAM"]
		return path.Base(source), "./" + source
	case part.Build != nil: // a service of another checkout
		return cmp.Or(image, part.Name), "."
	case image == "nats":
		return "nats-server", "github.com/nats-io/nats-server/v2"
	}
	return image, ""
}

// once reports whether a part runs to its end before the others start.
func once(part types.ServiceConfig) bool { return part.Restart == "no" }
