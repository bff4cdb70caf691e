package resource

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
)

// TestL1PutRepeatedWithItsKey: a PUT that made a resource is, with its key, the
// same again, and a key of another PUT is refused.
func TestL1PutRepeatedWithItsKey(t *testing.T) {
	t.Parallel()
	bus := bustest.Server(t)
	startInstance(t, bus, resource.Env{DataEnv: service.DataEnv{DataDir: t.TempDir()}})
	base := strings.TrimSuffix(startEdge(t, bus), "/mcp")
	put := func(uri, key, body string) (int, string, string) {
		t.Helper()
		resp, b := withKey(t, http.MethodPut, base+"/resources/"+url.PathEscape(uri), key, body)
		return resp.StatusCode, string(b), resp.Header.Get("ETag")
	}
	const one, two = `{"name":"n","content":"one"}`, `{"name":"n","content":"two"}`
	status, made, tag := put("l1:new", "k1", one)
	if status != http.StatusCreated || tag != `"1"` {
		t.Fatalf("%d %s %s", status, tag, made)
	}
	for range 2 {
		if status, again, tag := put("l1:new", "k1", one); status != http.StatusCreated || again != made || tag != `"1"` {
			t.Errorf("again: %d %s %s, want what it was: %s", status, tag, again, made)
		}
	}
	if status, b, _ := put("l1:new", "k1", two); status != http.StatusConflict {
		t.Errorf("the key for another content: %d %s", status, b)
	}
	if status, b, _ := put("l1:other", "k1", one); status != http.StatusConflict {
		t.Errorf("the key for another resource: %d %s", status, b)
	}
	for range 2 {
		if status, b, tag := put("l1:new", "k2", two); status != http.StatusOK || tag != `"2"` {
			t.Errorf("a change: %d %s %s", status, tag, b)
		}
	}
}
