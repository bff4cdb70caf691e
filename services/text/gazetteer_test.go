package text_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/text"
)

func TestGazetteerOfTheEnvironment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "names.tsv")
	if err := os.WriteFile(path, []byte("# ours\ntechnology\t*\tflux capacitor\nprocess\ten\ttime travel\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	conn := bustest.Connect(t, bustest.Server(t))
	servicetest.Join(t, conn, servicetest.Build(t, text.New, text.Env{Gazetteer: path}))
	caller := bustest.Caller(t, conn)
	frame, err := caller.Call(t.Context(), "text", &busv1.Request{Method: mcp.MethodToolsCall, Name: "extractEntities",
		Arguments: []byte(`{"text":"Time travel needs a flux capacitor and a server."}`)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `"structuredContent":{"entities":{"technologies":["flux capacitor"],"concepts":[],"processes":["Time travel"]}}`
	if got := string(frame.GetResult().GetJson()); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}

func TestUnusableGazetteer(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"no such file": "", "bad line": "technology Foo\n", "too large": strings.Repeat("# "+strings.Repeat("x", 1000)+"\n", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, name)
			if content != "" {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := text.New(t.Context(), text.Env{Gazetteer: path})
			if err == nil || !strings.Contains(err.Error(), "BUSBAR_TEXT_GAZETTEER") {
				t.Errorf("started: %v", err)
			}
		})
	}
}
