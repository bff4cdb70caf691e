package door_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	loopback := door.Guard{Loopback: true}
	public := door.Guard{}
	named := door.Guard{Hosts: []string{"mcp.example.com", "Other.Example.com"}, Origins: []string{"https://app.example.com"}}
	both := door.Guard{Loopback: true, Hosts: []string{"mcp.example.com"}}
	const none = "-"
	for name, c := range map[string]struct {
		guard        door.Guard
		host, origin string
		pass         bool
	}{
		"loopback name":                  {loopback, "localhost:8000", none, true},
		"loopback name, upper case":      {loopback, "LocalHost:8000", none, true},
		"loopback address":               {loopback, "127.0.0.1:8000", none, true},
		"another loopback address":       {loopback, "127.8.8.8", none, true},
		"loopback address, version 6":    {loopback, "[::1]:8000", none, true},
		"version 6 without port":         {loopback, "[::1]", none, true},
		"rebound name":                   {loopback, "evil.example:8000", none, false},
		"name beginning like loopback":   {loopback, "localhost.evil.example", none, false},
		"address beginning like one":     {loopback, "127.0.0.1.evil.example", none, false},
		"address in another notation":    {loopback, "2130706433", none, false},
		"private address":                {loopback, "192.168.1.1:8000", none, false},
		"any address":                    {loopback, "0.0.0.0:8000", none, false},
		"no host":                        {loopback, "", none, false},
		"public edge, any host":          {public, "mcp.example.com", none, true},
		"named host":                     {named, "mcp.example.com:443", none, true},
		"named host, upper case":         {named, "MCP.example.com", none, true},
		"named in upper case":            {named, "other.example.com", none, true},
		"host not named":                 {named, "example.com", none, false},
		"host with a named one's end":    {named, "x.mcp.example.com", none, false},
		"loopback name on a public edge": {named, "localhost", none, false},
		"named beside loopback":          {both, "mcp.example.com", none, true},
		"loopback beside named":          {both, "127.0.0.1", none, true},
		"neither":                        {both, "evil.example", none, false},

		"evil origin":                 {loopback, "localhost", "https://evil.example", false},
		"null origin":                 {loopback, "localhost", "null", false},
		"empty origin":                {loopback, "localhost", "", false},
		"local origin":                {loopback, "localhost:8000", "http://localhost:8000", true},
		"local origin, other port":    {loopback, "localhost:8000", "http://localhost:3000", true},
		"local origin, address":       {loopback, "localhost:8000", "http://127.0.0.1:3000", true},
		"local origin, version 6":     {loopback, "localhost:8000", "http://[::1]:3000", true},
		"origin beginning like local": {loopback, "localhost", "http://localhost.evil.example", false},
		"origin with user":            {loopback, "localhost", "http://localhost@evil.example", false},
		"origin with local user":      {loopback, "localhost", "http://user@localhost", false},
		"origin with path":            {loopback, "localhost", "http://localhost/x", false},
		"origin with garbage":         {loopback, "localhost", "http://[::1]garbage", false},
		"origin of a file":            {loopback, "localhost", "file://", false},
		"origin of an extension":      {loopback, "localhost", "chrome-extension://localhost", false},
		"two origins in one":          {loopback, "localhost", "http://localhost https://evil.example", false},
		"two origin fields":           {loopback, "localhost", "http://localhost\nhttp://localhost", false},
		"local origin, public edge":   {public, "mcp.example.com", "http://localhost", false},
		"own origin, public edge":     {public, "mcp.example.com", "https://mcp.example.com", false},
		"named origin":                {named, "mcp.example.com", "https://app.example.com", true},
		"named origin, other scheme":  {named, "mcp.example.com", "http://app.example.com", false},
		"named origin, with port":     {named, "mcp.example.com", "https://app.example.com:8443", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "/mcp", nil)
			r.Host = c.host
			if c.origin != none {
				r.Header["Origin"] = strings.Split(c.origin, "\n")
			}
			err := c.guard.Check(r)
			if (err == nil) != c.pass {
				t.Fatalf("passes: %v, want %v", err == nil, c.pass)
			}
			if err != nil && (!fault.Is(err, fault.Forbidden) || !strings.Contains(fault.From(err).Next, "--allow-")) {
				t.Errorf("refused with %v, way on %q", err, fault.From(err).Next)
			}
		})
	}
}
