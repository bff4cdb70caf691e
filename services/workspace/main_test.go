package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/workspace"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// start puts the service on a bus, with roots. Its caller has no roots of its own, and approves
// every call.
func start(t *testing.T, roots ...string) *servicetest.Bus {
	t.Helper()
	s := servicetest.Build(t, workspace.New, workspace.Env{Env: service.Env{Log: bustest.Logger(t)}, Roots: roots})
	return servicetest.Start(t, s).Answer("roots", []service.Root{}).Approve(true)
}

// put writes files below a directory, by path.
func put(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t testing.TB, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// args are a tool's arguments.
type args = map[string]any

// call makes a call that has to succeed, and reads its result.
func call[Out any](t *testing.T, b *servicetest.Bus, tool string, a args) (out Out) {
	t.Helper()
	if err := b.Call(tool, a).Into(&out); err != nil {
		t.Fatalf("%s %v: %v", tool, a, err)
	}
	return out
}

// fails makes a call that must fail with a message for the model, and returns the message.
func fails(t *testing.T, b *servicetest.Bus, tool string, a args) string {
	t.Helper()
	r := b.Call(tool, a)
	if !r.IsError {
		t.Errorf("%s %v: got %s %v, want a failure that the model can read", tool, a, r.Text, r.Err)
	}
	return r.Text
}

func text(v any) string {
	data, _ := json.Marshal(v)
	return string(data)
}
