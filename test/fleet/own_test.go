package fleet

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Every port of this machine moves with a variable, and .env says the defaults of the file.
func TestPorts(t *testing.T) {
	env, err := os.ReadFile(filepath.Join(root, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	compose, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	moved := map[string]bool{}
	for _, m := range regexp.MustCompile(`\$\{(BUSBAR_[A-Z_]*PORT):-(\d+)\}`).FindAllStringSubmatch(string(compose), -1) {
		if !strings.Contains("\n"+string(env), "\n"+m[1]+"="+m[2]+"\n") {
			t.Errorf(".env does not say %s=%s", m[1], m[2])
		}
		other := strconv.Itoa(20000 + len(moved))
		t.Setenv(m[1], other)
		moved[other] = true
	}
	published := 0
	for _, part := range topologyOf(t, "fleet,"+off).parts {
		for _, port := range part.Ports {
			published++
			if !moved[port.Published] {
				t.Errorf("port %s of %s does not move", port.Published, part.Name)
			}
		}
	}
	if published < 4 || published != len(moved) {
		t.Errorf("%d ports are published, %d have a variable", published, len(moved))
	}
}

// The server that stands in for the image of NATS has the version that the file names.
func TestVersionOfNATS(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile(filepath.Join(root, "libs/natsd/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`nats-server/v2 v(\d+\.\d+)\.`).FindStringSubmatch(string(module))
	if image := topologyOf(t, "small").project.Services["nats"].Image; version == nil || !strings.HasPrefix(image, "nats:"+version[1]+"-") {
		t.Errorf("docker-compose.yml names %s, libs/natsd/go.mod requires %v", image, version)
	}
}

// A service of another checkout is built in its own directory, and a directory that it mounts
// is there under the path of the container.
func TestOwnService(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	dir, files := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example.com/greeter\n\ngo 1.26\n",
		"main.go":     "package main\n\nfunc main() { println(\"greets\") }\n",
		"compose.yml": "services:\n  greeter:\n    image: example.com/greeter:1\n    build: " + dir + "\n    profiles: [greeter]\n    volumes: [\"" + files + ":/data\"]\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := New(t.Context(), Options{
		Root: top, Dir: t.TempDir(), Profile: "small,greeter", Out: io.Discard,
		Files: []string{filepath.Join(top, "docker-compose.yml"), filepath.Join(dir, "compose.yml")},
	})
	if err != nil {
		t.Fatal(err)
	}
	part, err := f.part("greeter")
	if err != nil {
		t.Fatal(err)
	}
	argv, err := f.command(t.Context(), part)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), argv[0], argv[1:]...).CombinedOutput(); err != nil || string(out) != "greets\n" {
		t.Errorf("%s says %q, %v", argv[0], out, err)
	}
	if err := f.place.mount(part); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(f.place.root("greeter"), "data", "kept"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(files, "kept")); err != nil {
		t.Error(err)
	}
}

// A mount inside of a volume is there under the path of the container, also at the next start.
func TestMountInVolume(t *testing.T) {
	t.Parallel()
	top := topologyOf(t, "small")
	p := newPlace(t.TempDir(), "127.0.7", top)
	for range 2 {
		if err := p.mount(top.project.Services["grafana"]); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(p.root("grafana"), "var/lib/grafana")
		if err := os.WriteFile(filepath.Join(data, "kept"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(p.dir, "volumes/grafana/kept")); err != nil {
			t.Error(err)
		}
		if boards, err := filepath.Glob(filepath.Join(data, "dashboards/*.json")); err != nil || len(boards) == 0 {
			t.Errorf("the dashboards are not in %s: %v", data, err)
		}
	}
}

// Unless a fleet is given files, it uses the ones that Docker Compose reads: COMPOSE_FILE, or
// docker-compose.yml with its override.
func TestFilesOfCompose(t *testing.T) {
	dir := t.TempDir()
	write := func(name, part string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("services: {"+part+": {image: nats, profiles: [small]}}\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("docker-compose.yml", "one")
	write("docker-compose.override.yml", "two")
	write("more.yml", "three")
	for files, want := range map[string]string{"": "one two", "docker-compose.yml:more.yml": "one three"} {
		var paths []string
		for _, name := range strings.FieldsFunc(files, func(r rune) bool { return r == ':' }) {
			paths = append(paths, filepath.Join(dir, name))
		}
		t.Setenv("COMPOSE_FILE", strings.Join(paths, ":"))
		if len(paths) == 0 {
			if err := os.Unsetenv("COMPOSE_FILE"); err != nil {
				t.Fatal(err)
			}
		}
		top, err := load(t.Context(), dir, "small")
		if err != nil {
			t.Errorf("%q: %v", files, err)
		} else if got := strings.Join(names(top), " "); got != want {
			t.Errorf("%q: the fleet is of %s, want %s", files, got, want)
		}
	}
}
