package operator_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/busbar-mcp/busbar/libs/token"
	"github.com/busbar-mcp/busbar/services/edge/operator"
)

func TestH5Token(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := filepath.Join(t.TempDir(), "data")
	old, _, err := operator.Issue(dir, l)
	if err != nil {
		t.Fatal(err)
	}
	made, remove, err := operator.Issue(dir, l)
	if err != nil || made == old || !made.Admits(string(made)) || made.Admits(string(old)) || made.Admits("") || token.Token("").Admits("") {
		t.Errorf("%q %q %v", old, made, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, url := range []string{"http://127.0.0.1:" + port, "http://localhost:" + port + "/mcp", "http://[::1]:" + port} {
		if found, err := operator.Find(url, t.TempDir(), dir); err != nil || found != made {
			t.Errorf("%s: %q %v", url, found, err)
		}
	}
	for _, url := range []string{"http://127.0.0.1:1", "http://192.0.2.1:" + port, "http://localhost.example:" + port, "http://127.0.0.1.example:" + port, "", ":"} {
		if found, err := operator.Find(url, dir); !errors.Is(err, operator.ErrNoToken) {
			t.Errorf("%s: %q %v", url, found, err)
		}
	}
	remove()
	if _, err := operator.Find("http://127.0.0.1:"+port, dir); !errors.Is(err, operator.ErrNoToken) {
		t.Error(err)
	}
}
