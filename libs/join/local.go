package join

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bus/permission"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
	"github.com/busbar-mcp/busbar/libs/lifecycle"
)

// local returns the secret for this user's own bus on this machine, of "busbar dev" or "busbar
// stdio", from its default directory: a user that can read that needs no flag.
func local(servers, user string) (secret.Secret, bool) {
	u, err := url.Parse(servers)
	if err != nil || u.User != nil {
		return secret.Secret{}, false
	}
	for _, command := range []string{"dev", "stdio"} {
		dir, err := lifecycle.DataDir(command)
		if err != nil {
			return secret.Secret{}, false
		}
		raw, err := os.ReadFile(filepath.Join(dir, "bus.json"))
		var at struct {
			HostPort string `json:"hostPort"`
		}
		if err != nil || json.Unmarshal(raw, &at) != nil || at.HostPort != strings.Replace(u.Host, "localhost", "127.0.0.1", 1) {
			continue
		}
		for _, name := range []string{user, permission.Developer} {
			if s, err := secret.Dir(filepath.Join(dir, "users")).Read(name); err == nil {
				return s, true
			}
		}
	}
	return secret.Secret{}, false
}
