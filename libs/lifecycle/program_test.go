package lifecycle

import (
	"runtime/debug"
	"testing"
)

// A program reports the release that it was linked as, otherwise the one that "go install" took it
// from; a build from a working tree has no release.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ linked, module, want string }{
		{"1.2.3", "(devel)", "1.2.3"},
		{"1.2.3", "v1.2.4", "1.2.3"},
		{unreleased, "v1.2.3", "1.2.3"},
		{unreleased, "v1.2.3-rc.1", "1.2.3-rc.1"},
		{unreleased, "v1.2.3+dirty", unreleased},
		{unreleased, "v0.0.0-20261123061000-f9b528205d21", unreleased},
		{unreleased, "v1.2.4-0.20261123061000-f9b528205d21", unreleased},
		{unreleased, "v1.2.4-rc.1.0.20261123061000-f9b528205d21+dirty", unreleased},
		{unreleased, "(devel)", unreleased},
		{unreleased, "", unreleased},
	} {
		if got := versionOf(c.linked, &debug.BuildInfo{Main: debug.Module{Version: c.module}}); got != c.want {
			t.Errorf("linked as %s, of module %s: %s, want %s", c.linked, c.module, got, c.want)
		}
	}
	for want, c := range map[string][2]string{
		"1.2.3 (commit 00635655521d)": {"1.2.3", "00635655521d"},
		"1.2.3+5.g00635655":           {"1.2.3+5.g00635655", "00635655521d"},
		"1.2.3":                       {"1.2.3", ""},
	} {
		if got := printed(c[0], c[1]); got != want {
			t.Errorf("--version says %q, want %q", got, want)
		}
	}
	if got := versionOf(unreleased, nil); got != unreleased {
		t.Errorf("without build information: %s", got)
	}
}
