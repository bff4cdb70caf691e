package servicetest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// notesEnv are the settings of a service that stores something: service.DataEnv, and --greeting or
// NOTES_GREETING.
type notesEnv struct {
	service.DataEnv
	Greeting string `env:"NOTES_GREETING" default:"Dear diary" help:"How each note begins (default ${default})."`
	Key      string `env:"NOTES_KEY" secret:"" hidden:"" help:"Key of the printer."`
}

// newNotes is a service.Build. It registers the cleanup that closes its file when the instance
// stops.
func newNotes(_ context.Context, env notesEnv) (*service.Service, error) {
	notes, err := os.OpenFile(env.File("notes.txt"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	s := service.New("notes", service.WithVersion("1.0.0"), service.WithLogger(env.Log))
	s.OnStop(func() { _ = notes.Close() })
	service.AddTool(s, service.Tool{Name: "note", Description: "Writes a note."}, func(_ context.Context, _ *service.Call, in struct {
		Text string `json:"text"`
	}) (string, error) {
		line := env.Greeting + ", " + in.Text
		_, err := fmt.Fprintln(notes, line)
		return line, err
	})
	return s, nil
}

// A service with its own settings and file. A service with a database is in examples/notes.
func Example_build() {
	// In a program: service.Main("notes", newNotes). In a test:
	t := &example{}
	defer t.end()
	dir, err := os.MkdirTemp("", "notes")
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	env := notesEnv{Greeting: "Hello"}
	env.DataDir = dir
	b := servicetest.Start(t, servicetest.Build(t, newNotes, env))
	fmt.Println(b.Call("note", map[string]string{"text": "one bus"}).Text)
	stored, _ := os.ReadFile(filepath.Join(dir, "notes.txt"))
	fmt.Print(string(stored))
	// Output:
	// Hello, one bus
	// Hello, one bus
}
