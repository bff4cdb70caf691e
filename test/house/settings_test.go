package house

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	settingsPage = "docs/reference/settings.md"
	composeFile  = "docker-compose.yml"
)

var (
	settingName = regexp.MustCompile(`BUSBAR_[A-Z][A-Z_]*[A-Z]`)
	settingRow  = regexp.MustCompile("(?m)^\\| `(BUSBAR_[A-Z_]+)` \\|(.*)$")
	// flagTag is a field that kong makes a flag of, with its default.
	flagTag    = regexp.MustCompile(`env:"(BUSBAR_[A-Z_]+)"`)
	flagValue  = regexp.MustCompile(`default:"([^"$]+)"`)
	testSuffix = "_test.go"
	// composed is a variable of docker-compose.yml, with its default.
	composed = regexp.MustCompile(`\$\{(BUSBAR_[A-Z_]+)(?::-([^}]*))?`)
)

// The page of settings has every variable that a program or docker-compose.yml reads, and
// its default.
func TestSettings(t *testing.T) {
	top := root(t)
	page, err := os.ReadFile(filepath.Join(top, settingsPage))
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, m := range settingRow.FindAllStringSubmatch(string(page), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("%s has %s twice", settingsPage, m[1])
		}
		rows[m[1]] = m[2]
	}
	read := map[string]bool{}
	for _, s := range shipped(sources(t)) {
		if strings.HasPrefix(s.path, "test/") || strings.HasSuffix(s.path, testSuffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(top, s.path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range settingName.FindAllString(string(text), -1) {
			if strings.HasPrefix(name, "BUSBAR_TEST_") {
				continue
			}
			read[name] = true
			if rows[name] == "" {
				t.Errorf("%s knows %s; add a row for it to %s", s.path, name, settingsPage)
				rows[name] = "missing" // said once
			}
		}
		for line := range strings.Lines(string(text)) {
			name, value := flagTag.FindStringSubmatch(line), flagValue.FindStringSubmatch(line)
			if name == nil || value == nil {
				continue
			}
			if row := rows[name[1]]; row != "missing" && !strings.Contains(row, "`"+value[1]+"`") {
				t.Errorf("%s: the default of %s is %s; say so in %s", s.path, name[1], value[1], settingsPage)
			}
		}
	}
	compose, err := os.ReadFile(filepath.Join(top, composeFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range composed.FindAllStringSubmatch(string(compose), -1) {
		name, value := m[1], m[2]
		read[name] = true
		if rows[name] == "" {
			t.Errorf("%s knows %s; add a row for it to %s", composeFile, name, settingsPage)
			rows[name] = "missing"
		}
		if rows[name] != "missing" && value != "" && !strings.Contains(rows[name], "`"+value+"`") {
			t.Errorf("%s: the default of %s is %s; say so in %s", composeFile, name, value, settingsPage)
		}
	}
	for name := range rows {
		if !read[name] {
			t.Errorf("%s has %s, which neither a program nor %s reads", settingsPage, name, composeFile)
		}
	}
}
