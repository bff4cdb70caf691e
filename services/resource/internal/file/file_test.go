package file_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/internal/file"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// tree makes a root with a similar directory next to it.
func tree(t testing.TB) (dir string, files *file.Files) {
	t.Helper()
	top := t.TempDir()
	dir = filepath.Join(top, "data")
	write := func(name, text string) {
		path := filepath.Join(top, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("data/a.txt", "inside")
	write("data/sub dir/ü.md", "# deep")
	write("data/b.bin", "\x00\xff")
	write("data2/a.txt", "twin")
	write("secret.txt", "secret")
	for link, to := range map[string]string{"out": "../secret.txt", "in": "a.txt", "dir": "sub dir", "up": ".."} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := file.Open([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = files.Close() })
	return dir, files
}

func TestRead(t *testing.T) {
	t.Parallel()
	dir, files := tree(t)
	at := file.Scheme + dir
	for uri, text := range map[string]string{at + "/a.txt": "inside", at + "/sub%20dir/%C3%BC.md": "# deep", "file://localhost" + dir + "/a.txt": "inside"} {
		c, err := files.Read(t.Context(), uri)
		if err != nil || c.Text != text || c.URI != uri || !strings.HasPrefix(c.MIMEType, "text/") {
			t.Errorf("%s: %+v %v", uri, c, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "main.rs"), []byte("fn main() {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := files.Read(t.Context(), at+"/main.rs"); err != nil || c.MIMEType != "text/x-rust" {
		t.Errorf("%+v %v", c, err)
	}
	if c, err := files.Read(t.Context(), at+"/b.bin"); err != nil || !bytes.Equal(c.Blob, []byte{0, 255}) {
		t.Errorf("%+v %v", c, err)
	}
	for uri, reason := range map[string]fault.Reason{
		at + "/none": fault.UnknownResource, at + "/a.txt/b": fault.UnknownResource, at + "/" + strings.Repeat("x", 300): fault.UnknownResource,
		at + "/out": fault.Forbidden, at + "/in": fault.Forbidden, at + "/dir/%C3%BC.md": fault.Forbidden, at + "/up/secret.txt": fault.Forbidden, at + "/up/data/a.txt": fault.Forbidden,
		at + "/pipe": fault.Forbidden, at + "/sub%20dir": fault.Forbidden, at: fault.Forbidden, at + "2/a.txt": fault.Forbidden,
		"file:///etc/passwd": fault.Forbidden, "file:///dev/zero": fault.Forbidden, "file:///": fault.Forbidden, "file:///proc/self/environ": fault.Forbidden,
		at + "/../secret.txt": fault.InvalidParams, at + "/%2e%2e/secret.txt": fault.InvalidParams, at + "/..%2fsecret.txt": fault.InvalidParams,
		at + "/sub%20dir/../../secret.txt": fault.InvalidParams, at + "/./a.txt": fault.InvalidParams, at + "//a.txt": fault.InvalidParams, at + "/a.txt/": fault.InvalidParams,
		at + "/a.txt%00": fault.InvalidParams, at + "/a.txt%00.md": fault.InvalidParams, at + "/a.txt?x": fault.InvalidParams, at + "/a.txt#x": fault.InvalidParams, at + "/a.txt#": fault.InvalidParams,
		at + "/..\\secret.txt": fault.InvalidParams, at + "/%5c..%5csecret.txt": fault.InvalidParams, at + "/%ff": fault.InvalidParams,
		"file://evil" + dir + "/a.txt": fault.InvalidParams, "file:a.txt": fault.InvalidParams, "FILE://" + dir + "/a%": fault.InvalidParams,
		"file://u:p@localhost" + dir + "/a.txt": fault.InvalidParams, strings.ToUpper(at) + "/a.txt": fault.Forbidden,
	} {
		c, err := files.Read(t.Context(), uri)
		f := fault.From(err)
		if err == nil || f.Reason != reason {
			t.Errorf("%s: %q %v, want %s", uri, c.Text, err, reason)
			continue
		}
		if reason == fault.Forbidden && strings.Contains(f.Message, dir) {
			t.Errorf("%s: the message names the directory: %s", uri, f.Message)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "b.bin"), store.MaxContent+1); err != nil {
		t.Fatal(err)
	}
	if _, err := files.Read(t.Context(), at+"/b.bin"); !fault.Is(err, fault.TooLarge) {
		t.Errorf("%v", err)
	}
	if _, err := file.Open([]string{dir, filepath.Join(dir, "none")}); err == nil {
		t.Error("a directory that is not there was opened")
	}
}

// FuzzRead: whatever the URI, only files in the directory are read.
func FuzzRead(f *testing.F) {
	dir, files := tree(f)
	for _, tail := range []string{"/a.txt", "/../secret.txt", "/%2e%2e/secret.txt", "2/a.txt", "/up/secret.txt", "/out", "/pipe"} {
		f.Add(file.Scheme + dir + tail)
	}
	f.Fuzz(func(t *testing.T, uri string) {
		uri = strings.ReplaceAll(uri, "DIR", dir)
		c, err := files.Read(t.Context(), uri)
		if err == nil && c.Text != "inside" && c.Text != "# deep" && c.Blob == nil {
			t.Errorf("%q read %q", uri, c.Text)
		}
	})
}
