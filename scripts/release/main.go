// Command release builds the files of a version: for each system an archive and a bill of materials,
// a Debian package, the Helm chart, a Homebrew formula, checksums and a statement of provenance. With
// -tag it makes the tags of all modules first, in a clone; with -publish it pushes them, the images
// and the files. Start reading at run; RELEASING.md is for people who release.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	program = "busbar"
	source  = "services/busbar/cmd/busbar"
	home    = "https://github.com/busbar-mcp/busbar"
	about   = "Serves the Model Context Protocol from services on a NATS bus"
)

// systems are those that a release is built for.
var systems = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// semver is the form of a version (semver.org), without the v of its tag.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// release is one that is being built.
type release struct {
	version, commit string
	// linked are the flags of the linker.
	linked string
	// time of the commit, which everything in the release bears: a second build gives
	// the same bytes.
	time time.Time
	dir  string
	// files are names in dir with their SHA-256.
	files map[string]string
	// completions are the scripts for shells, by where a Debian package has them.
	completions []entry
}

// notesFile is the file with the release's section of the changelog. It is not a download.
const notesFile = "notes.md"

// options are the flags of the command.
type options struct {
	out, tag   string
	only, skip []string
	publish    bool
}

func main() {
	var o options
	flag.StringVar(&o.out, "out", ".tmp/release", "directory to write to; its contents are removed first")
	only := flag.String("only", strings.Join(systems, ","), "systems to build for")
	flag.StringVar(&o.tag, "tag", "", "release this version, such as v1.2.3, from a clone that gets its tags; nothing is pushed")
	flag.BoolVar(&o.publish, "publish", false, "with -tag: push main, the tags and the images, and create a draft on GitHub")
	skip := flag.String("skip", "", "steps to leave out: images, draft")
	signed := flag.String("sign", "", "sign this file with the key that $"+keyVariable+" names, and build nothing")
	flag.Parse()
	o.only, o.skip = strings.Split(*only, ","), strings.Split(*skip, ",")
	err := error(nil)
	if *signed != "" {
		err = sign(*signed)
	} else {
		err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(o options) (err error) {
	for _, s := range o.only {
		if !slices.Contains(systems, s) {
			return fmt.Errorf("-only %s: it is one of %s", s, strings.Join(systems, ", "))
		}
	}
	if o.publish && o.tag == "" {
		return errors.New("-publish needs -tag")
	}
	r := &release{files: map[string]string{}}
	if r.dir, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	if o.publish {
		if err := publisher(o.skip); err != nil {
			return err
		}
	}
	var t *tree
	if o.tag != "" {
		if t, err = clone(o.tag, o.publish); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.remove()) }()
	}
	if err := r.identify(); err != nil {
		return err
	}
	if err := r.make(o.only); err != nil {
		return err
	}
	switch {
	case o.publish:
		return t.publish(r, o.skip)
	case t == nil || slices.Contains(o.skip, "images"):
		return nil
	}
	if _, err := exec.LookPath("docker"); err != nil {
		fmt.Fprintln(os.Stderr, "release: no images, because there is no docker")
		return nil
	}
	return r.images(false)
}

// make builds the files and their checksums.
func (r *release) make(only []string) error {
	for i, s := range only {
		fmt.Fprintf(os.Stderr, "release: %s (%d of %d)\n", s, i+1, len(only))
		if err := r.build(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	if err := steps(r.chart, r.formula, r.provenance); err != nil {
		return err
	}
	var sums strings.Builder
	for _, name := range r.names() {
		fmt.Fprintf(&sums, "%s  %s\n", r.files[name], name)
	}
	list := filepath.Join(r.dir, "checksums.txt")
	if err := os.WriteFile(list, []byte(sums.String()), 0o644); err != nil {
		return err
	}
	if os.Getenv(keyVariable) != "" {
		if err := sign(list); err != nil {
			return err
		}
	}
	changes, err := notes(r.version)
	if err != nil {
		return err
	}
	fmt.Print(sums.String())
	return os.WriteFile(filepath.Join(r.dir, notesFile), []byte(changes), 0o644)
}

// identify finds out what is built.
func (r *release) identify() error {
	version, err := command("scripts/version")
	if err != nil {
		return err
	}
	if !semver.MatchString(version) {
		return fmt.Errorf("scripts/version says %q, which is not a version", version)
	}
	flags, err := command("scripts/version", "-ldflags")
	if err != nil {
		return err
	}
	r.linked = "-s -w " + flags
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return err
	}
	at, err := git("show", "--no-patch", "--format=%ct", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	r.version, r.commit, r.time = version, commit, time.Unix(seconds, 0).UTC()
	return err
}

// complete makes the program write its scripts for shells, once: they are the same on all systems.
// If this machine cannot run the program, it compiles another one.
func (r *release) complete(binary, system string) error {
	if r.completions != nil {
		return nil
	}
	if system != runtime.GOOS+"/"+runtime.GOARCH {
		binary += ".here"
		if err := r.compile(binary, runtime.GOOS, runtime.GOARCH); err != nil {
			return err
		}
	}
	for _, s := range []struct{ shell, file string }{
		{"bash", "usr/share/bash-completion/completions/" + program},
		{"fish", "usr/share/fish/vendor_completions.d/" + program + ".fish"},
		{"zsh", "usr/share/zsh/vendor-completions/_" + program},
	} {
		script, err := command(binary, "completion", s.shell)
		if err != nil {
			return err
		}
		r.completions = append(r.completions, entry{name: s.file, text: script + "\n", mode: 0o644})
	}
	return nil
}

func (r *release) compile(binary, goos, arch string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", r.linked, "-o", binary, "./"+source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	return cmd.Run()
}

// build makes the program of a system, and its archive and package.
func (r *release) build(system string) error {
	goos, arch, _ := strings.Cut(system, "/")
	name := program
	if goos == "windows" {
		name += ".exe"
	}
	scratch, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	binary := filepath.Join(scratch, name)
	if err := r.compile(binary, goos, arch); err != nil {
		return err
	}
	if err := r.complete(binary, system); err != nil {
		return err
	}
	others, err := command("go", "run", "scripts/notices/main.go", "-system", goos+"/"+arch, source)
	if err != nil {
		return err
	}
	bill, err := r.bill(binary)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("%s_%s_%s_%s", program, r.version, goos, arch)
	if err := r.write(base+".cdx.json", bill); err != nil {
		return err
	}
	texts := []entry{
		{name: "LICENSE", from: "LICENSE", mode: 0o644}, {name: "THIRD-PARTY.txt", text: others, mode: 0o644},
		{name: "README.md", from: "README.md", mode: 0o644}, {name: "CHANGELOG.md", from: "CHANGELOG.md", mode: 0o644},
	}
	entries := append([]entry{{name: name, from: binary, mode: 0o755}}, texts...)
	if goos == "windows" {
		b, err := r.zipped(entries)
		if err != nil {
			return err
		}
		return r.write(base+".zip", b)
	}
	b, err := r.tarred(entries)
	if err != nil {
		return err
	}
	if err := r.write(base+".tar.gz", b); err != nil || goos != "linux" {
		return err
	}
	deb, err := r.deb(arch, binary, texts)
	if err != nil {
		return err
	}
	// Its name has no ~, which some hosts of files turn into another character.
	return r.write(fmt.Sprintf("%s_%s_%s.deb", program, r.version, arch), deb)
}

// write adds a file to the release.
func (r *release) write(name string, b []byte) error {
	sum := sha256.Sum256(b)
	r.files[name] = hex.EncodeToString(sum[:])
	return os.WriteFile(filepath.Join(r.dir, name), b, 0o644)
}

func (r *release) writeJSON(name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return r.write(name, append(b, '\n'))
}

// names returns the names of the files, in order.
func (r *release) names() []string {
	names := make([]string, 0, len(r.files))
	for name := range r.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func git(arguments ...string) (string, error) { return command("git", arguments...) }

// command runs a program and returns what it prints.
func command(name string, arguments ...string) (string, error) {
	cmd := exec.Command(name, arguments...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
