package fleet

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
)

const (
	root = "../.."
	// off are the profiles of parts that start only if they are named.
	off = "workspace,model,hello"
)

func topologyOf(t *testing.T, profile string) *topology {
	t.Helper()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	top, err := load(t.Context(), dir, profile, filepath.Join(dir, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return top
}

func names(top *topology) (all []string) {
	for _, part := range top.parts {
		all = append(all, part.Name)
	}
	return all
}

// Profiles are whole: what a part needs is in the profile and starts before it,
// its files and programs are there, and it has the secret of its own user alone.
func TestTopology(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, "deploy/compose/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	asked := regexp.MustCompile(`[\w-]+:9100`).FindAllString(string(raw), -1)
	for _, profile := range []string{"small", "fleet", "small," + off} {
		top := topologyOf(t, profile)
		all := names(top)
		for i, part := range top.parts {
			for _, dependency := range part.GetDependencies() {
				if at := slices.Index(all, dependency); at > i || at < 0 && part.DependsOn[dependency].Required {
					t.Errorf("%s: %s comes before %s, which it needs", profile, part.Name, dependency)
				}
			}
			for _, v := range part.Volumes {
				if v.Type != types.VolumeTypeBind {
					continue
				}
				if _, err := os.Stat(v.Source); err != nil {
					t.Errorf("%s: %v", part.Name, err)
				}
			}
			if to := part.Environment["OTEL_EXPORTER_OTLP_ENDPOINT"]; to != nil && *to != os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") {
				t.Errorf("%s sends traces to %s, which is a container", part.Name, *to)
			}
			name, source := program(part)
			if strings.HasPrefix(source, "./") {
				if _, err := os.Stat(filepath.Join(root, source, "main.go")); err != nil {
					t.Errorf("%s runs %s: %v", part.Name, name, err)
				}
			}
			if key := setting(part, "BUSBAR_NATS_NKEY"); key != "" {
				user := strings.TrimSuffix(filepath.Base(key), ".secret")
				i := slices.IndexFunc(part.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Source == "bus" })
				if i < 0 || part.Volumes[i].Volume.Subpath != user || !part.Volumes[i].ReadOnly {
					t.Errorf("%s is user %s, and sees other secrets: %+v", part.Name, user, part.Volumes)
				}
				users := top.parts[slices.IndexFunc(top.parts, func(p types.ServiceConfig) bool { return once(p) && strings.HasPrefix(p.Name, "bus") })]
				if user != "edge" && user != "operator" && !regexp.MustCompile(`[=,]`+user+`([:,]|$)`).MatchString(users.Command[1]) {
					t.Errorf("%s is user %s, which is not made: %s", part.Name, user, users.Command[1])
				}
			}
			if part.Build != nil && (!part.ReadOnly || !slices.Contains(part.CapDrop, "ALL")) {
				t.Errorf("%s may write its file system, or has capabilities", part.Name)
			}
			if part.Build != nil && !once(part) && (setting(part, "BUSBAR_METRICS_LISTEN") == "" || !slices.Contains(asked, host(part)+":9100")) {
				t.Errorf("Prometheus does not ask %s", part.Name)
			}
			for _, port := range part.Ports {
				if port.HostIP != "127.0.0.1" {
					t.Errorf("%s is open to other machines: %+v", part.Name, port)
				}
			}
		}
	}
	small, fleet := names(topologyOf(t, "small")), names(topologyOf(t, "fleet"))
	for _, one := range small {
		if one != "nats" && !slices.Contains(fleet, one) {
			t.Errorf("%s is in a small fleet and in no large one", one)
		}
	}
	for _, one := range strings.Split(off, ",") {
		if slices.Contains(small, one) || slices.Contains(fleet, one) || !slices.Contains(names(topologyOf(t, "fleet,"+one)), one) {
			t.Errorf("%s has to be off unless its profile is named", one)
		}
	}
	for _, two := range []string{"edge-2", "text-2", "resource-2", "audit-2", "nats-3"} {
		if slices.Contains(small, two) || !slices.Contains(fleet, two) {
			t.Errorf("%s has to be in the large fleet alone", two)
		}
	}
	top := topologyOf(t, "fleet")
	for _, want := range [][]string{{"database"}, {"bus", "nats-1", "nats-2", "nats-3", "text"}} {
		var got []string
		for _, part := range top.needed(want[len(want)-1:]) {
			got = append(got, part.Name)
		}
		if !slices.Equal(got, want) {
			t.Errorf("to start %s, %q are needed; got %q", want[len(want)-1], want, got)
		}
	}
	for _, profiles := range []string{"huge", "small,huge", ""} {
		if _, err := load(t.Context(), root, profiles, filepath.Join(root, "docker-compose.yml")); err == nil || !strings.Contains(err.Error(), "hello, model") {
			t.Errorf("the profiles %q are loaded, or the error does not list those that there are: %v", profiles, err)
		}
	}
}

// Names of hosts and mounts become addresses and directories, and nothing else does.
func TestHere(t *testing.T) {
	t.Parallel()
	top := topologyOf(t, "fleet")
	p := newPlace("/fleet", "127.0.7", top)
	edge := top.project.Services["edge-2"]
	one, two, database := p.hosts["edge-1"], p.hosts["edge-2"], p.hosts["database"]
	if one == two || one == "" || database == "" || p.address(edge) != two {
		t.Fatalf("hosts: %v", p.hosts)
	}
	for text, want := range map[string]string{
		"edge-2:8000":                 two + ":8000",
		"http://edge-1:8000":          "http://" + one + ":8000",
		"localhost,edge-2,proxy":      "localhost," + two + "," + p.hosts["proxy"],
		"edge-21:8000":                "edge-21:8000",
		"my-edge-2":                   "my-edge-2",
		"nats://edge-1:6222":          "nats://" + one + ":6222",
		"postgres://busbar@database:": "postgres://busbar@" + database + ":",
		"/data/spool":                 "/fleet/parts/edge-2/data/spool",
		"--dir=/data":                 "--dir=/fleet/parts/edge-2/data",
		"../../data":                  "../../data",
		"":                            "",
	} {
		if got := p.here(edge, text); got != want {
			t.Errorf("%q becomes %q, not %q", text, got, want)
		}
	}
	if small := newPlace("/fleet", "127.0.7", topologyOf(t, "small")); small.hosts["edge-1"] != one {
		t.Error("an address depends on the profile")
	}
}

// The images are built with the Go that the modules ask for.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	work, err := os.ReadFile(filepath.Join(root, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	docker, err := os.ReadFile(filepath.Join(root, "deploy/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(string(work))
	if len(version) != 2 || !strings.Contains(string(docker), "golang:"+version[1]+" ") {
		t.Errorf("the modules ask for Go %v", version)
	}
}

// An image has the licences of everything linked into its program, and no others.
func TestNotices(t *testing.T) {
	t.Parallel()
	for program, pages := range map[string]bool{"services/busbar/cmd/busbar": true, "services/text/cmd/text": false} {
		cmd := exec.CommandContext(t.Context(), "go", "run", "scripts/notices/main.go", "-system", "linux/arm64", program)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for part, want := range map[string]bool{"\nGo: LICENSE\n": true, "\ngithub.com/nats-io/nats.go v": true, "\nmodernc.org/sqlite v": pages, "\npages: ": pages} {
			if strings.Contains(string(out), part) != want {
				t.Errorf("%s: %q is there: %t, want %t", program, part, !want, want)
			}
		}
	}
}

// A small fleet's one NATS server has the names of all three, so that nobody looks for
// servers that are not there.
func TestOneServerHasAllNames(t *testing.T) {
	t.Parallel()
	top := topologyOf(t, "small")
	p := newPlace("/fleet", "127.0.7", top)
	for _, server := range strings.Split(setting(top.project.Services["edge-1"], "BUSBAR_NATS"), ",") {
		if got := p.here(top.project.Services["edge-1"], server); got != "tls://"+p.hosts["nats-1"]+":4222" {
			t.Errorf("%s is %s", server, got)
		}
	}
}

// A program that listens at a part's address is not taken for that part, nothing is started, and a
// part that has ended says so.
func TestAddressesThatAreTaken(t *testing.T) {
	t.Parallel()
	network, claim, err := Network()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = claim.Close() }()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	f, err := New(t.Context(), Options{Root: dir, Dir: t.TempDir(), Profile: "small", Network: network, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", f.At("text-1", "9100"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	if err := f.Up(t.Context()); err == nil || !strings.Contains(err.Error(), l.Addr().String()) || out.Len() > 0 {
		t.Errorf("it was started, or does not say what is taken: %v\n%s", err, &out)
	}
	if err := os.MkdirAll(filepath.Dir(f.file("nats", "pid")), 0o755); err != nil {
		t.Fatal(err)
	}
	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.file("nats", "pid"), []byte(strconv.Itoa(ended.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Status(); err != nil || !strings.Contains(out.String(), "ended; see "+f.Log("nats")) {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := f.Down(true); err != nil {
		t.Error(err)
	}
}

// The user that stops a command is told whether parts continue to run, and a part that ends at once
// says why.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	dir, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	f, err := New(t.Context(), Options{Root: dir, Dir: t.TempDir(), Profile: "small"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Interrupted(); err.Error() != "interrupted; no part runs" {
		t.Error(err)
	}
	at := f.place.root("text")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	part := exec.CommandContext(t.Context(), "sleep", "1h")
	part.Dir = at
	if err := part.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = part.Process.Kill(); _ = part.Wait() }()
	if err := os.WriteFile(f.file("text", "pid"), []byte(strconv.Itoa(part.Process.Pid)), 0o644); err != nil {
		t.Fatal(err)
	}
	err = f.Interrupted()
	var code interface{ ExitCode() int }
	if !strings.Contains(err.Error(), "go on (1)") || !errors.As(err, &code) || code.ExitCode() != 130 {
		t.Errorf("%v, %v", err, code)
	}
	for said, want := range map[string]string{
		"":           "",
		"one\ntwo\n": "two",
		`{"level":"INFO","msg":"starting"}` + "\n" + `{"level":"ERROR","msg":"no database"}` + "\n": "no database",
	} {
		if err := os.WriteFile(f.Log("text"), []byte(said), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := f.lastWords("text"); got != want {
			t.Errorf("%q has the last words %q", said, got)
		}
	}
}
