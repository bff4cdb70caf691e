package house

import (
	"slices"
	"strings"
	"testing"
)

const (
	natsClient = "github.com/nats-io/nats.go"
	natsServer = "github.com/nats-io/nats-server"
)

// shipped are the files that end up in programs: neither tests nor generated.
func shipped(all []source) []source {
	return slices.DeleteFunc(slices.Clone(all), func(s source) bool { return s.test || s.generated })
}

func TestImports(t *testing.T) {
	all := sources(t)
	code := shipped(all)

	// rooms lists our packages that the packages of a room may import, in addition to each other.
	rooms := []struct {
		room string
		may  []string
		why  string
	}{
		{"libs/fault", nil, "it is at the bottom: move what needs more out of it"},
		{"libs/mcp", []string{"libs/fault"}, "it holds facts of the protocol: move what needs more to its user"},
		{"libs/tracing", []string{"libs/fault", "libs/tracing"}, "the bus stands on it: move what needs more to its user"},
		{"libs/bus", []string{"gen", "libs/fault", "libs/mcp", "libs/share", "libs/tracing"}, "it knows no service and no door: pass what it needs as a parameter"},
		{"libs/service", []string{"libs", "gen"}, "every team's service carries it: keep it small"},
		{"libs", []string{"libs", "gen"}, "libraries know nothing of who uses them: pass it in"},
		{"gen", []string{"gen"}, "it is generated: change proto/ and run make gen"},
		{"examples", []string{"libs", "gen", "examples"}, "an example shows what a team outside this repository can do: use libs"},
	}
	for _, r := range rooms {
		name := r.room + " imports nothing of ours"
		if len(r.may) > 0 {
			name += " but " + strings.Join(r.may, ", ")
		}
		t.Run(name, func(t *testing.T) {
			for _, s := range code {
				for _, dir := range s.ours() {
					if within(s.dir, r.room) && !within(dir, r.room) && !within(dir, r.may...) {
						t.Errorf("%s imports %s; %s", s.path, dir, r.why)
					}
				}
			}
		})
	}

	t.Run("only who starts a program sends traces", func(t *testing.T) {
		for _, s := range code {
			if slices.ContainsFunc(s.ours(), isOf("libs/tracing/otlp")) && !within(s.dir, "libs/service", "services/edge", "services/busbar", "libs/tracing/otlp") {
				t.Errorf("%s imports libs/tracing/otlp; use libs/tracing, whose spans find their way in a context", s.path)
			}
		}
	})

	t.Run("only natsd brings the NATS server", func(t *testing.T) {
		for _, s := range code {
			if slices.ContainsFunc(s.imports, isOf(natsServer)) && !within(s.dir, "libs/natsd") {
				t.Errorf("%s imports the NATS server; run one with libs/natsd", s.path)
			}
			if slices.ContainsFunc(s.ours(), isOf("libs/natsd")) && !within(s.dir, "libs/natsd", "libs/service/servicetest", "services/busbar", "scripts/reference") {
				t.Errorf("%s imports libs/natsd; only services/busbar and test kits run a NATS server, others take its URL", s.path)
			}
		}
	})

	t.Run("bustest, certtest and leaktest are for tests", func(t *testing.T) {
		for _, s := range code {
			if slices.ContainsFunc(s.ours(), isOf("libs/bustest")) && !within(s.dir, "libs/bustest", "libs/natsd/cmd/servers", "services/edge/internal/edgetest") {
				t.Errorf("%s imports libs/bustest outside of a test", s.path)
			}
			for _, dir := range []string{"libs/certtest", "libs/leaktest", "services/edge/internal/edgetest"} {
				if slices.ContainsFunc(s.ours(), isOf(dir)) {
					t.Errorf("%s imports %s outside of a test", s.path, dir)
				}
			}
		}
	})

	t.Run("only the bus touches NATS", func(t *testing.T) {
		for _, s := range code {
			if slices.ContainsFunc(s.imports, isOf(natsClient)) && !within(s.dir, "libs/bus", "libs/natsd", "libs/bustest") {
				t.Errorf("%s imports %s; give libs/bus a method for what it needs", s.path, natsClient)
			}
		}
	})

	t.Run("only rooms of the bus reach into the connection", func(t *testing.T) {
		for _, s := range code {
			for _, name := range []string{"NATS", "JetStream"} {
				if slices.Contains(s.calls, name) && !within(s.dir, "libs/bus", "libs/natsd", "libs/bustest") {
					t.Errorf("%s calls %s() of a connection; give the room of libs/bus that it belongs to a method", s.path, name)
				}
			}
		}
	})

	t.Run("what edges say to each other is theirs", func(t *testing.T) {
		for _, s := range code {
			for _, dir := range s.ours() {
				if dir == "libs/bus/edges" && !within(s.dir, "services/edge", "libs/bus/storage") {
					t.Errorf("%s imports %s, which only services/edge may: services are not to know of sessions and streams", s.path, dir)
				}
				if dir == "libs/bus/storage" && !within(s.dir, "services/edge", "services/busbar", "libs/bustest", "libs/service/servicetest", "scripts/reference", "test") {
					t.Errorf("%s imports %s: edges make the buckets of a bus, services find them there", s.path, dir)
				}
			}
		}
	})

	t.Run("doors know neither each other nor the bus", func(t *testing.T) {
		for _, s := range code {
			door := doorOf(s.dir)
			if door == "" {
				continue
			}
			for _, dir := range s.ours() {
				if other := doorOf(dir); other != "" && other != door {
					t.Errorf("%s: door %s imports door %s; move what both need to services/edge/door or the gateway", s.path, door, other)
				}
				// The door of services is on the bus.
				if within(dir, "libs/bus") && door != "service" {
					t.Errorf("%s: door %s imports libs/bus; ask the gateway", s.path, door)
				}
			}
		}
	})

	// Tests too: what takes two services to test is tested in test/.
	t.Run("services do not know each other", func(t *testing.T) {
		for _, s := range all {
			mine := serviceOf(s.dir)
			if mine == "busbar" || within(s.dir, "test", "scripts/reference") {
				continue
			}
			for _, dir := range s.ours() {
				if other := serviceOf(dir); other != "" && other != mine {
					t.Errorf("%s imports service %s; call it over the bus, and test the two together in test/", s.path, other)
				}
			}
		}
	})
}

func TestSubjects(t *testing.T) {
	roots := []string{"mcp.audit.", "mcp.call.", "mcp.ctl.", "mcp.dlq.", "mcp.evt.", "mcp.live.", "mcp.reply.", "mcp.task.", "mcp.to."}
	root := func(text string) bool {
		return slices.ContainsFunc(roots, func(root string) bool { return strings.HasPrefix(text, root) })
	}
	t.Run("only the bus writes subjects", func(t *testing.T) {
		for _, s := range shipped(sources(t)) {
			for _, l := range s.literals {
				if !within(s.dir, "libs/bus/internal/subject", "libs/bus/permission", "libs/natsd") && (root(l.text) || strings.HasPrefix(l.text, "$KV.") || strings.HasPrefix(l.text, "$JS.")) {
					t.Errorf("%s:%d writes subject %q; add a function to libs/bus/internal/subject", s.path, l.line, l.text)
				}
			}
		}
	})
	t.Run("these are the roots", func(t *testing.T) {
		var found []string
		for _, s := range shipped(sources(t)) {
			for _, l := range s.literals {
				if s.dir == "libs/bus/internal/subject" && strings.HasPrefix(l.text, "mcp.") {
					found = append(found, l.text)
				}
			}
		}
		slices.Sort(found)
		if !slices.Equal(found, roots) {
			t.Errorf("libs/bus/internal/subject has the roots %q; permissions and docs/reference/bus.md know %q", found, roots)
		}
	})
}

func TestFiles(t *testing.T) {
	all := sources(t)

	t.Run("packages are named for what they hold", func(t *testing.T) {
		vague := []string{"util", "utils", "common", "manager", "managers", "helper", "helpers"}
		for _, s := range all {
			if slices.Contains(vague, strings.TrimSuffix(s.pkg, "_test")) {
				t.Errorf("%s: package %s says nothing; name it for the one idea in it", s.path, s.pkg)
			}
		}
	})

	t.Run("files have at most 500 lines", func(t *testing.T) {
		for _, s := range all {
			if !s.generated && s.lines > 500 {
				t.Errorf("%s has %d lines; split it by concept", s.path, s.lines)
			}
		}
	})

	t.Run("generated code is in gen and nothing else is", func(t *testing.T) {
		for _, s := range all {
			if s.generated != within(s.dir, "gen") {
				t.Errorf("%s: generated code, and only that, lives in gen", s.path)
			}
		}
	})
}

// doorOf is the door a directory belongs to, or empty.
func doorOf(dir string) string { return child(dir, "services/edge/door/") }

// serviceOf is the service a directory belongs to, or empty.
func serviceOf(dir string) string { return child(dir, "services/") }

func child(dir, parent string) string {
	rest, ok := strings.CutPrefix(dir, parent)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
	return name
}

// isOf matches a package and those below it.
func isOf(root string) func(string) bool {
	return func(p string) bool { return within(p, root) }
}
