package house

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// Only tests that failed by themselves run once more in CI: never where something else was
// wrong, or tests that did not run at all.
func TestOnceMore(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join(root(t), "scripts/test"))
	if err != nil {
		t.Fatal(err)
	}
	function := regexp.MustCompile(`(?sm)^once_more\(\) \{.*?^\}`).Find(script)
	const failed = "--- FAIL: TestA (0.10s)\n    a_test.go:1: no\nFAIL\nFAIL\tp/a\t1s\n"
	for name, test := range map[string]struct {
		log, alone string
		green      bool
	}{
		"one":                           {failed + "ok  \tp/b\t1s\nFAIL\n", "true", true},
		"again":                         {failed, "false", false},
		"three":                         {failed + failed + failed, "true", false},
		"no test":                       {"FAIL\nFAIL\tp/a\t1s\n", "true", false},
		"a program that does not build": {failed + "FAIL\tp/c [build failed]\n", "true", false},
		"a race":                        {"WARNING: DATA RACE\n" + failed, "true", false},
		"a panic":                       {"--- FAIL: TestA (0.10s)\npanic: no\nFAIL\tp/a\t1s\n", "true", false},
		"another one exits":             {"--- FAIL: TestA (0.10s)\n    a_test.go:1: no\n2026/01/01 00:00:00 gone\nFAIL\tp/a\t1s\nFAIL\n", "true", false},
		"another one exits later":       {failed + "FAIL\n--- FAIL: TestB (0.10s)\nsignal: killed\nFAIL\tp/b\t1s\n", "true", false},
	} {
		log := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(log, []byte(test.log), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("bash", "-c", "set -euo pipefail\nAGAIN=2 flaky=()\n"+string(function)+"\nif once_more "+log+" "+test.alone+"; then exit 0; fi; exit 1").CombinedOutput()
		if green := err == nil; green != test.green {
			t.Errorf("%s: green is %t\n%s", name, green, out)
		}
	}
}
