package docs

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestSignedRelease runs the commands of RELEASING.md that make a key and verify a release:
// they accept the file that was signed, and no other.
func TestSignedRelease(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here")
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, "RELEASING.md"), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of commands, and 2 are run here", len(blocks))
	}
	dir := t.TempDir()
	sh := func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	sums := filepath.Join(dir, "checksums.txt")
	if out, err := sh(blocks[0][1] + "echo program > busbar.tar.gz\nsha256sum busbar.tar.gz > checksums.txt\n"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sign := func(key string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", "run", root+"/scripts/release", "-sign", sums)
		cmd.Env = append(os.Environ(), "RELEASE_KEY="+filepath.Join(dir, key))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sign("release.pub"); err == nil || !strings.Contains(out, "no private key") {
		t.Errorf("signed with what is no key: %v %s", err, out)
	}
	if out, err := sign("release.key"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := sh(blocks[1][1]); err != nil || !strings.Contains(out, "Signature Verified Successfully") || !strings.Contains(out, "busbar.tar.gz: OK") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := sh("echo other >> checksums.txt\n" + blocks[1][1]); err == nil {
		t.Errorf("another list passes:\n%s", out)
	}
}

// TestRelease releases a clone to a repository of its own with the command of the guide, and then
// does as a stranger does: "go get" finds the modules by their tags, a service of them joins the
// released program, and a project of "busbar init" builds. No module is replaced.
func TestRelease(t *testing.T) {
	t.Parallel()
	if os.Getenv("BUSBAR_TEST_RELEASE") == "" {
		t.Skip("it takes minutes; make release-check runs it")
	}
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		t.Skip("this tree has no history")
	}
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	const version = "0.1.0"
	if page := read(t, "RELEASING.md"); !strings.Contains(page, "    make release TAG=v"+version+" PUBLISH=1\n") {
		t.Error("the page does not show the command")
	}
	home := t.TempDir()
	origin, work, files := filepath.Join(home, "origin"), filepath.Join(home, "work"), filepath.Join(home, "files")
	env := append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	sh := func(dir, script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	sh(home, "git clone -q --no-tags '"+from+"' work; git -C work switch -q -C main; git clone -q --bare --no-tags work origin; git -C work remote set-url origin '"+origin+"'")

	// Images and the draft need programs that this machine may not have.
	system := "linux/" + runtime.GOARCH
	build := "make release TAG=v" + version + ` ARGS="-skip images,draft -only ` + system + " -out '" + files + `'"`
	sh(work, build)
	if tags := sh(origin, "git tag") + sh(work, "git tag"); tags != "" {
		t.Errorf("a rehearsal tags %s", tags)
	}
	sh(work, build+" PUBLISH=1")
	sh(work, build+" PUBLISH=1") // again, as after a failure

	if got, want := sh(origin, "git tag | sort | xargs"), "examples/v0.1.0 gen/v0.1.0 libs/database/v0.1.0 libs/natsd/v0.1.0 libs/service/servicetest/v0.1.0 libs/v0.1.0 v0.1.0"; got != want {
		t.Errorf("the tags are %s, want %s", got, want)
	}
	if mods := sh(origin, "for dir in '' gen/ libs/ libs/database/ libs/natsd/ libs/service/servicetest/ examples/; do git show v0.1.0:${dir}go.mod; done"); strings.Contains(mods, "replace") || strings.Contains(mods, "busbar-mcp/busbar/libs v0.0.0") {
		t.Errorf("modules of the release replace others, or need no version of them:\n%s", mods)
	}
	if changed := sh(work, "git pull -q --tags origin main; git diff --name-only ORIG_HEAD HEAD | xargs"); changed != "CHANGELOG.md test/faults/previous-release" {
		t.Errorf("on main the release changed %s", changed)
	}
	if v := sh(work, "scripts/version"); !strings.HasPrefix(v, version+"+") {
		t.Errorf("after the release main is version %s", v)
	}
	if notes := sh(files, "cat notes.md; sha256sum --check --quiet checksums.txt; tar -xzf busbar_"+version+"_linux_*.tar.gz"); !strings.Contains(notes, "### Added") || strings.Contains(notes, "## [") {
		t.Errorf("the notes of the release are\n%s", notes)
	}
	if v := sh(files, "./busbar --version"); v != version+" (commit "+sh(origin, "git rev-parse --short=12 v0.1.0^{commit}")+")" {
		t.Errorf("the program is version %s", v)
	}

	// The stranger's git takes this repository for the public one.
	env = append(env, "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-trimpath -ldflags=-s -modcacherw", "GOMODCACHE="+filepath.Join(home, "modules"),
		"GOPRIVATE=github.com/busbar-mcp/*", "GOSUMDB=off", "GOPROXY=file://"+sh(home, "go env GOMODCACHE")+"/cache/download,"+sh(home, "go env GOPROXY"),
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://"+origin+".insteadOf", "GIT_CONFIG_VALUE_0=https://github.com/busbar-mcp/busbar")
	sh(home, "mkdir hello; cd hello; go mod init example.com/hello; go get github.com/busbar-mcp/busbar/libs@v"+version+"; cp '"+from+"/examples/hello/main.go' .; go mod tidy; go build")
	sh(home, "files/busbar init shop; cd shop; ! grep replace go.mod; grep -q 'busbar/libs v"+version+"' go.mod; go mod tidy; go vet ./...")

	data := t.TempDir()
	ready := start(t, exec.Command(filepath.Join(files, "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", data))
	addresses := regexp.MustCompile(`mcp=http://(\S+)/mcp nats=(\S+) data=`).FindStringSubmatch(ready)
	if addresses == nil {
		t.Fatalf("ready line: %q", ready)
	}
	hello := exec.Command(filepath.Join(home, "hello", "hello"), "--nats", addresses[2])
	hello.Env = append(os.Environ(), "BUSBAR_DATA_DIR="+data)
	startQuiet(t, hello)
	eventually(t, "the stranger's tool", func() error {
		cmd := exec.CommandContext(t.Context(), filepath.Join(files, "busbar"), "call", "greet", "name=stranger")
		cmd.Env = append(os.Environ(), "BUSBAR_URL=http://"+addresses[1], "BUSBAR_DATA_DIR="+data)
		out, err := cmd.CombinedOutput()
		if err == nil && !strings.Contains(string(out), "Hello, stranger!") {
			err = errors.New("another result")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}
