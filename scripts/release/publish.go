package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// tree is a clone of the repository that has the commits and tags of a release. The caller's own
// checkout does not change.
type tree struct {
	dir, tag string
	// origin is the repository that the release is pushed to; refs are the refs pushed.
	origin string
	refs   []string
}

// publisher returns an error if this machine cannot publish a release, before anything is built.
func publisher(skip []string) error {
	branch, err := git("branch", "--show-current")
	if err != nil {
		return err
	}
	if branch != "main" {
		return fmt.Errorf("-publish: a release is made from the branch main, not from %q", branch)
	}
	for step, program := range map[string]string{"images": "docker", "draft": "gh"} {
		if _, err := exec.LookPath(program); err != nil && !slices.Contains(skip, step) {
			return fmt.Errorf("-publish needs the program %s; leave its step out with -skip %s", program, step)
		}
	}
	return nil
}

// clone makes the tree of a release and enters it. If the tag exists, it is released. Otherwise
// main gets the date of the release in CHANGELOG.md, and the tags get a commit of their own in
// which the modules require each other at this version.
func clone(tag string, publish bool) (*tree, error) {
	version, ok := strings.CutPrefix(tag, "v")
	if !ok || !semver.MatchString(version) {
		return nil, fmt.Errorf("-tag %s: a tag is v and a version, such as v1.2.3", tag)
	}
	dirty, err := git("status", "--porcelain")
	if err != nil {
		return nil, err
	}
	if dirty != "" {
		return nil, errors.New("-tag: commit your changes first; a release is made from a commit")
	}
	t := &tree{tag: tag}
	if t.origin, err = git("config", "--default", "", "remote.origin.url"); err != nil {
		return nil, err
	}
	// A clone does not inherit the name of this checkout.
	for _, part := range []string{"name", "email"} {
		value, err := git("config", "--default", "", "user."+part)
		if err != nil {
			return nil, err
		}
		for _, role := range []string{"AUTHOR", "COMMITTER"} {
			if key := "GIT_" + role + "_" + strings.ToUpper(part); value != "" && os.Getenv(key) == "" {
				if err := os.Setenv(key, value); err != nil {
					return nil, err
				}
			}
		}
	}
	if t.dir, err = os.MkdirTemp("", "busbar-release-"); err != nil {
		return nil, err
	}
	if _, err = git("clone", "--quiet", ".", t.dir); err == nil {
		err = os.Chdir(t.dir)
	}
	// After a failure the tags may be there, and not in this checkout.
	if err == nil && publish && t.origin != "" {
		err = do("git", "fetch", "--quiet", "--tags", t.origin)
	}
	if err == nil {
		err = t.make(version)
	}
	if err != nil {
		return nil, errors.Join(err, t.remove())
	}
	return t, nil
}

func (t *tree) remove() error { return os.RemoveAll(t.dir) }

// make adds the commits and tags.
func (t *tree) make(version string) error {
	tags, err := command("go", "run", "scripts/modules/main.go", "tags", t.tag)
	if err != nil {
		return err
	}
	t.refs = strings.Fields(tags)
	if exists, err := git("tag", "--list", t.tag); err != nil || exists != "" {
		_, checkout := git("switch", "--quiet", "--detach", t.tag)
		return errors.Join(err, checkout)
	}
	err = steps(
		func() error { return do("git", "switch", "--quiet", "-C", "main") },
		func() error { return date(version) },
		func() error { return commit("changelog: the date of " + version) },
		func() error { return do("git", "switch", "--quiet", "--detach") },
		func() error { return do("go", "run", "scripts/modules/main.go", "stamp", t.tag) },
		func() error {
			return replace("deploy/helm/busbar/Chart.yaml", `(?m)^(version|appVersion): .*$`, "$1: "+version)
		},
		func() error { return commit("modules: " + t.tag) },
	)
	if err != nil {
		return err
	}
	released, err := git("rev-parse", "HEAD")
	if err != nil {
		return err
	}
	for _, name := range t.refs {
		if err := do("git", "tag", "--annotate", "--message", program+" "+version, name); err != nil {
			return err
		}
	}
	t.refs = append(t.refs, "main")
	return steps(
		// main keeps its files, and its history gets the tag: scripts/version and
		// scripts/breaking look for the last release there.
		func() error { return do("git", "switch", "--quiet", "main") },
		func() error {
			return do("git", "merge", "--quiet", "--strategy", "ours", "--message", "release: "+t.tag, t.tag)
		},
		func() error { return replace("test/faults/previous-release", `(?m)^[0-9a-f]{40}$`, released) },
		func() error { return commit("faults: the previous release is " + t.tag) },
		func() error { return do("git", "switch", "--quiet", "--detach", t.tag) },
	)
}

// date gives the section of a version in CHANGELOG.md the date of today.
func date(version string) error {
	_, err := notes(version)
	if err != nil {
		return err
	}
	return replace("CHANGELOG.md", `(?m)^(## \[`+regexp.QuoteMeta(version)+`\]) - unreleased$`, "$1 - "+time.Now().UTC().Format(time.DateOnly))
}

// notes returns the section of a version in CHANGELOG.md. A pre-release has the section of its release.
func notes(version string) (string, error) {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return "", err
	}
	section := strings.FieldsFunc(version, func(c rune) bool { return c == '-' || c == '+' })[0]
	_, after, found := strings.Cut(string(text), "\n## ["+section+"]")
	_, after, _ = strings.Cut(after, "\n")
	after = regexp.MustCompile(`(?m)^(## |\[.*\]: )`).Split(after, 2)[0]
	if !found || !strings.Contains(after, "\n- ") {
		return "", fmt.Errorf("CHANGELOG.md has no section %s with changes", section)
	}
	return strings.TrimSpace(after) + "\n", nil
}

// images builds an image of each program of docker-compose.yml. With push it builds them for
// both processors and pushes them.
func (r *release) images(push bool) error {
	compose, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		return err
	}
	for _, m := range regexp.MustCompile(`PROGRAM: ([\w/]+)`).FindAllStringSubmatch(string(compose), -1) {
		name := cmp.Or(os.Getenv("BUSBAR_IMAGES"), "busbar") + "/" + filepath.Base(m[1]) + ":" + r.version
		fmt.Fprintf(os.Stderr, "release: image %s\n", name)
		args := []string{"build"}
		if push {
			args = []string{"buildx", "build", "--platform", "linux/amd64,linux/arm64", "--sbom=true", "--push"}
		}
		if err := do("docker", append(args, "-f", "deploy/Dockerfile", "-t", name, "--build-arg", "PROGRAM="+m[1],
			"--build-arg", "VERSION="+r.version, "--build-arg", "COMMIT="+r.commit[:12], ".")...); err != nil {
			return err
		}
	}
	return nil
}

// publish pushes main and the tags together, then the images, and makes a draft with the files.
// It can be repeated after a failure.
func (t *tree) publish(r *release, skip []string) error {
	if t.origin == "" {
		return errors.New("-publish: the repository has no remote named origin")
	}
	if err := do("git", append([]string{"push", "--quiet", "--atomic", t.origin}, t.refs...)...); err != nil {
		return err
	}
	if !slices.Contains(skip, "images") {
		if err := r.images(true); err != nil {
			return err
		}
	}
	if slices.Contains(skip, "draft") {
		return nil
	}
	args := []string{"release", "create", t.tag, "--draft", "--verify-tag", "--title", "Busbar " + r.version, "--notes-file", filepath.Join(r.dir, notesFile)}
	if strings.Contains(r.version, "-") {
		args = append(args, "--prerelease")
	}
	files, err := filepath.Glob(filepath.Join(r.dir, "*.*"))
	if err != nil {
		return err
	}
	return do("gh", append(args, slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == notesFile })...)...)
}

// steps calls functions until one fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// commit commits what changed, if anything did.
func commit(message string) error {
	changed, err := git("status", "--porcelain")
	if err != nil || changed == "" {
		return err
	}
	return do("git", "commit", "--quiet", "--all", "--message", message)
}

// replace replaces what matches in a file.
func replace(file, pattern, with string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, regexp.MustCompile(pattern).ReplaceAll(text, []byte(with)), 0o644)
}

// do runs a program that prints nothing of interest.
func do(name string, arguments ...string) error {
	_, err := command(name, arguments...)
	return err
}
