package main

import (
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
)

// TestDataDirectoriesAreOne: bin/prompt and busbar prompt keep their data in one
// place, and so do the other services that store something.
func TestDataDirectoriesAreOne(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"state home": {"XDG_STATE_HOME": filepath.Join(t.TempDir(), "state")},
		"home":       {"HOME": t.TempDir(), "XDG_STATE_HOME": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("BUSBAR_DATA_DIR", "")
			for key, value := range env {
				t.Setenv(key, value)
			}
			trail, err := database.Dir(audit.Name) // what the service's own command asks
			if err != nil {
				t.Fatal(err)
			}
			for service, own := range map[string]string{
				"prompt": prompt.FromEnv().DataDir, "resource": filepath.Dir(resource.FromEnv().File), audit.Name: trail,
			} {
				dir, err := dataDir("", service)
				if err != nil || string(dir) != own || filepath.Base(own) != service {
					t.Errorf("busbar %s keeps its data in %s, bin/%[1]s in %s; %v", service, dir, own, err)
				}
			}
		})
	}
	t.Setenv("BUSBAR_DATA_DIR", "/data")
	if dir, err := dataDir("", "prompt"); err != nil || string(dir) != "/data" || prompt.FromEnv().DataDir != "/data" || resource.FromEnv().File != "/data/resource.db" {
		t.Errorf("BUSBAR_DATA_DIR is not obeyed: %s, %v", dir, err)
	}
}
