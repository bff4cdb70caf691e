package house

import (
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// A list item of a workflow's matrix, or a step that runs one section.
	listed  = regexp.MustCompile(`(?m)^ +section:\n((?: +- [a-z-]+\n)+)`)
	stepped = regexp.MustCompile(`(?m)^ +- run: \.ci/run ([a-z-]+)$`)
	item    = regexp.MustCompile(`- ([a-z-]+)\n`)
	action  = regexp.MustCompile(`uses: (\S+)`)
	pinned  = regexp.MustCompile(`^[\w-]+/[\w./-]+@v\d+$`)
	updated = regexp.MustCompile(`(?m)^  - package-ecosystem: (\S+)\n((?:    .*\n)*)`)
	place   = regexp.MustCompile(`(?m)^(?:      - |    directory: )(/\S*)$`)
)

// .ci/run is the one definition of the checks for a change: each of its sections is a target of the
// Makefile and one job of the workflow, and the workflow has no others.
func TestWorkflows(t *testing.T) {
	top := root(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(top, ".ci/run"), "--list")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	sections := strings.Fields(string(out))
	makefile := text(t, top, "Makefile")
	for _, name := range sections {
		if !strings.Contains(makefile, "\n"+name+":") {
			t.Errorf("the section %s of .ci/run is not a target of the Makefile", name)
		}
	}

	ci := text(t, top, ".github/workflows/ci.yml")
	var jobs []string
	for _, m := range listed.FindAllStringSubmatch(ci, -1) {
		for _, i := range item.FindAllStringSubmatch(m[1], -1) {
			jobs = append(jobs, i[1])
		}
	}
	if !strings.Contains(ci, "run: .ci/run ${{ matrix.section }}\n") {
		t.Error("ci.yml runs no section of its matrix")
	}
	for _, m := range stepped.FindAllStringSubmatch(ci, -1) {
		jobs = append(jobs, m[1])
	}
	slices.Sort(sections)
	slices.Sort(jobs)
	if !slices.Equal(sections, jobs) {
		t.Errorf("the sections of .ci/run are\n%q, those of .github/workflows/ci.yml are\n%q; they must be the same", sections, jobs)
	}

	workflows, err := filepath.Glob(filepath.Join(top, ".github/workflows/*.yml"))
	if err != nil || len(workflows) < 2 {
		t.Fatalf("workflows %q, %v", workflows, err)
	}
	for _, file := range workflows {
		name := filepath.Base(file)
		workflow := text(t, top, ".github/workflows/"+name)
		for _, m := range action.FindAllStringSubmatch(workflow, -1) {
			if !pinned.MatchString(m[1]) {
				t.Errorf("%s uses %s; pin it to its major version, such as @v6", name, m[1])
			}
		}
		for _, key := range []string{"\npermissions:", "\nconcurrency:"} {
			if !strings.Contains(workflow, key) {
				t.Errorf("%s has no %s at its top level", name, strings.Trim(key, "\n:"))
			}
		}
	}
}

// Each manifest of dependencies is in one directory that dependabot.yml names, and each
// directory it names has one.
func TestDependabot(t *testing.T) {
	top := root(t)
	found := map[string][]string{}
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if skipped(top, file, d) {
				return fs.SkipDir
			}
			return nil
		}
		kind := ""
		switch name := d.Name(); {
		case name == "go.mod":
			kind = "gomod"
		case name == "package.json":
			kind = "npm"
		case strings.HasSuffix(name, "Dockerfile"):
			kind = "docker"
		case name == "docker-compose.yml":
			kind = "docker-compose"
		}
		if kind != "" {
			rel, err := filepath.Rel(top, filepath.Dir(file))
			if err != nil {
				return err
			}
			found[kind] = append(found[kind], path.Join("/", filepath.ToSlash(rel)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	named := map[string][]string{}
	for _, m := range updated.FindAllStringSubmatch(text(t, top, ".github/dependabot.yml"), -1) {
		for _, p := range place.FindAllStringSubmatch(m[2], -1) {
			named[m[1]] = append(named[m[1]], p[1])
		}
	}
	if len(named["github-actions"]) != 1 {
		t.Error("dependabot.yml does not update the actions of workflows")
	}
	for kind, dirs := range found {
		for _, dir := range dirs {
			if !slices.ContainsFunc(named[kind], func(pattern string) bool { return matches(t, pattern, dir) }) {
				t.Errorf("dependabot.yml does not name %s under %s", dir, kind)
			}
		}
		for _, pattern := range named[kind] {
			if !slices.ContainsFunc(dirs, func(dir string) bool { return matches(t, pattern, dir) }) {
				t.Errorf("dependabot.yml names %s under %s, which has nothing to update", pattern, kind)
			}
		}
	}
	if len(found["gomod"]) < 2 {
		t.Errorf("found %d modules", len(found["gomod"]))
	}
}

func matches(t *testing.T, pattern, dir string) bool {
	t.Helper()
	ok, err := path.Match(pattern, dir)
	if err != nil {
		t.Error(err)
	}
	return ok
}

// text is a file of the repository.
func text(t *testing.T, top, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(top, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
