// Package systemd compares deploy/systemd with the syntax of systemd, with docker-compose.yml and
// with the page of settings.
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// units are written for the test as they would be installed, with programs that are there.
func units(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(root, "deploy/systemd"))); err != nil {
		t.Fatal(err)
	}
	program := regexp.MustCompile(`(?m)^ExecStart=/\S+`)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, program.ReplaceAll(raw, []byte("ExecStart=/bin/true")), 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// instances are the units of a machine that runs everything.
var instances = []string{
	"busbar@edge.service", "busbar@text.service", "busbar@github.service", "busbar@planning.service", "busbar@batch.service",
	"busbar@weather.service", "busbar@resource.service", "busbar@prompt.service", "busbar@audit.service", "busbar@workspace.service",
	"busbar@model.service", "busbar@hello.service", "busbar-nats.service",
}

// systemd takes the units without a warning, and finds little that they could do beyond
// what they have to.
func TestUnits(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not on this machine")
	}
	dir := units(t)
	for _, args := range [][]string{{"verify", "--man=no"}, {"security", "--offline=yes", "--threshold=20", "--no-pager"}} {
		for _, unit := range instances {
			cmd := exec.CommandContext(t.Context(), analyze, append(slices.Clone(args), filepath.Join(dir, unit))...)
			cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+dir+":")
			out, err := cmd.CombinedOutput()
			if err != nil || args[0] == "verify" && len(strings.TrimSpace(string(out))) > 0 {
				t.Errorf("systemd-analyze %s %s: %v\n%s", args[0], unit, err, out)
			}
		}
	}
}

// Each service of the compose file has a unit here, and the other way round.
func TestSameAsCompose(t *testing.T) {
	t.Parallel()
	compose, err := os.ReadFile(filepath.Join(root, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, m := range regexp.MustCompile(`BUSBAR_NATS_NKEY: /bus/(\w+)\.secret`).FindAllStringSubmatch(string(compose), -1) {
		if m[1] != "operator" {
			want = append(want, "busbar@"+m[1]+".service")
		}
	}
	want = append(want, "busbar-nats.service")
	have := slices.Clone(instances)
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(slices.Compact(want), have) {
		t.Errorf("docker-compose.yml has %q, deploy/systemd %q", want, have)
	}
}

// Each variable is one that a program reads.
func TestSettings(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs/reference/settings.md"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`\b(BUSBAR_[A-Z_]+)=`)
	seen := 0
	err = filepath.WalkDir(filepath.Join(root, "deploy/systemd"), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, m := range name.FindAllStringSubmatch(string(raw), -1) {
			seen++
			if !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("%s sets %s, which docs/reference/settings.md does not have", path, m[1])
			}
		}
		return err
	})
	if err != nil || seen == 0 {
		t.Errorf("%d settings, %v", seen, err)
	}
}
