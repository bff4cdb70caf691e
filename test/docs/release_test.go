package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSignedRelease runs the commands of docs/guides/release.md that make a key and check a
// release: they take what was signed, and nothing else.
func TestSignedRelease(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("openssl is not here")
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(read(t, "docs/guides/release.md"), -1)
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
	sources, err := filepath.Glob(filepath.Join(root, "scripts/release/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(key string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", append(append([]string{"run"}, sources...), "-sign", sums)...)
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

// TestReleaseTags runs the commands of docs/guides/release.md that tag the modules, in a clone:
// after them main has the files that it had, and knows of the release.
func TestReleaseTags(t *testing.T) {
	t.Parallel()
	block := regexp.MustCompile("(?s)Step 3 is, on `main`:\n\n(.*?)\n\n[^ ]").FindStringSubmatch(read(t, "docs/guides/release.md"))
	if block == nil {
		t.Fatal("the page does not say how modules are tagged")
	}
	dir := t.TempDir()
	sh := func(script string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	from, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(from, ".git")); err != nil {
		t.Skip("this tree has no history")
	}
	sh("git clone -q --no-tags '" + from + "' .\ngit switch -q -C main\ngit tag before")
	sh(block[1])
	sh("git diff --exit-code before")
	if v := sh("scripts/version"); !strings.HasPrefix(v, "1.2.3+") {
		t.Errorf("after the release main is version %s", v)
	}
	if v := sh("git switch -q --detach v1.2.3; scripts/version; scripts/version -ldflags"); !strings.HasPrefix(v, "1.2.3\n") || !strings.Contains(v, "lifecycle.commit="+sh("git rev-parse --short=12 v1.2.3^{commit}")) {
		t.Errorf("what is released is version %s", v)
	}
	if mod := sh("cat go.mod"); strings.Contains(mod, "replace") || !strings.Contains(mod, "/libs v1.2.3") {
		t.Errorf("what is released requires\n%s", mod)
	}
}
