package fleet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest/programs"
	"github.com/busbar-mcp/busbar/services/edge/access"
)

// TestAddToFleet adds a service as docs/guides/deploy.md says: its entry to the compose
// file, its line to the access file and its user to the bus.
func TestAddToFleet(t *testing.T) {
	t.Parallel()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(top, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	shown := map[string][]string{}
	for _, m := range regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(read("docs/guides/deploy.md"), -1) {
		shown[m[1]] = append(shown[m[1]], m[2])
	}
	if len(shown["yaml"]) != 3 || len(shown["text"]) != 1 || len(shown["sh"]) != 1 {
		t.Fatalf("the page shows other blocks: %q", shown)
	}
	line, entry := shown["yaml"][0], shown["yaml"][1]

	// The access file takes the line, and lets the service offer its tools.
	policy, err := access.Parse([]byte(strings.Replace(read("deploy/compose/access.yaml"), "\nservices:\n", "\nservices:\n"+line, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if policy.Powers("notes").Calls || !strings.Contains(line, "tools/notes_add") {
		t.Errorf("%s grants something else", line)
	}

	// The compose file takes the entry.
	dir := t.TempDir()
	composed := strings.Replace(read("docker-compose.yml"), "\nservices:\n", "\nservices:\n"+entry, 1)
	env := regexp.MustCompile(`(?m)^BUSBAR_OWN_SERVICES=.*\n`).ReplaceAllLiteralString(read(".env"), shown["text"][0])
	for name, text := range map[string]string{"docker-compose.yml": composed, ".env": env} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fleet, err := load(context.WithoutCancel(t.Context()), dir, "fleet", filepath.Join(dir, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	part := fleet.project.Services["notes"]
	if url := part.Environment["BUSBAR_DATABASE_URL"]; url == nil || part.Environment["BUSBAR_METRICS_LISTEN"] == nil {
		t.Errorf("it has no database, or no figures: %v", part.Environment)
	}
	if part.Build == nil || part.Build.Context != filepath.Join(filepath.Dir(dir), "notes") {
		t.Errorf("it is built from %+v", part.Build)
	}
	if !slices.Contains(names(fleet), "notes") || !slices.Contains(names(fleet), "notes-2") || len(part.DependsOn) == 0 {
		t.Errorf("%v start, and notes waits for %v", names(fleet), part.DependsOn)
	}

	// Its user is made, with the power that it needs, and its secret is handed out where the
	// entry mounts it.
	words := fleet.project.Services["bus"].Command
	if !strings.HasSuffix(words[1], ",hello,notes:store") {
		t.Errorf("the bus is made with %q", words)
	}
	built, err := programs.Build(top, "./services/busbar/cmd/busbar")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", shown["sh"][0])
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(built[0])+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	users, err := os.ReadFile(filepath.Join(dir, "bus/nats/users.conf"))
	if err != nil || !strings.Contains(string(users), "notes") {
		t.Errorf("%v, and NATS is told\n%s", err, users)
	}
	for _, v := range part.Volumes {
		if secret := filepath.Join(dir, v.Source, v.Volume.Subpath, filepath.Base(*part.Environment["BUSBAR_NATS_NKEY"])); v.Source == "bus" {
			if _, err := os.Stat(secret); err != nil {
				t.Error(err)
			}
		}
	}
}
