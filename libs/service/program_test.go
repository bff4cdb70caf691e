package service_test

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
)

// settings are a service's own settings, added to DataEnv.
type settings struct {
	service.DataEnv
	Roots []string      `env:"SHAPE_TEST_ROOTS"`
	Every time.Duration `default:"5s" env:"SHAPE_TEST_EVERY"`
}

// A service reads its settings from the environment. Its data directory comes from its process, or
// from the environment, or follows from its name: it is the same one, whichever program runs it.
func TestSettingsOfAService(t *testing.T) {
	for variable, value := range map[string]string{
		"SHAPE_TEST_ROOTS": "a,b", "HOME": "/home/ada", "BUSBAR_DATABASE_URL": "postgres://environment",
	} {
		t.Setenv(variable, value)
	}
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	var got settings
	command := service.NewCommand("svc", func(_ context.Context, env settings) (*service.Service, error) {
		got = env
		return service.New("svc", service.WithVersion(env.Version), service.WithLogger(env.Log)), nil
	})
	env := service.DataEnv{Env: service.Env{Version: "1.2.3", Log: bustest.Logger(t)}}
	for _, place := range []struct{ data, state, url, dir, wantURL, wantDir string }{
		{"", "/state", "", "", "postgres://environment", "/state/busbar/svc"},
		{"", "", "", "", "postgres://environment", "/home/ada/.local/state/busbar/svc"},
		{"/data", "/state", "", "", "postgres://environment", "/data"},
		{"", "/state", "", "/given", "", "/given"},
		{"", "/state", "postgres://given", "/given", "postgres://given", "/given"},
	} {
		t.Setenv("BUSBAR_DATA_DIR", place.data)
		t.Setenv("XDG_STATE_HOME", place.state)
		env.DatabaseURL, env.DataDir = place.url, place.dir
		running, err := command.Start(t.Context(), conn, env)
		if err != nil {
			t.Fatal(err)
		}
		if err := running.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if got.Version != "1.2.3" || got.Log == nil || !slices.Equal(got.Roots, []string{"a", "b"}) || got.Every != 5*time.Second ||
			got.DatabaseURL != place.wantURL || got.DataDir != place.wantDir || got.File("x.db") != place.wantDir+"/x.db" {
			t.Errorf("with %+v: %+v", place, got)
		}
	}
	t.Setenv("SHAPE_TEST_EVERY", "soon")
	if _, err := command.Start(t.Context(), conn, env); err == nil || !strings.Contains(err.Error(), "SHAPE_TEST_EVERY") {
		t.Errorf("started with a wrong setting: %v", err)
	}
}

// A program of a service joins its bus, says that it is ready, and serves until it
// is told to stop.
func TestCommandRuns(t *testing.T) {
	t.Parallel()
	url := bustest.Server(t)
	bustest.Connect(t, url) // creates the registry
	command := service.NewCommand("svc", func(context.Context, service.Env) (*service.Service, error) {
		return quiet(t, "svc"), nil
	})
	command.NATS = url
	ctx, stop := context.WithCancel(t.Context())
	ready, out := io.Pipe()
	ran := make(chan error, 1)
	go func() { ran <- command.Run(ctx, out) }()
	line := make([]byte, 100)
	n, err := ready.Read(line)
	if want := "busbar svc is ready: nats=" + url + "\n"; err != nil || string(line[:n]) != want {
		t.Errorf("ready line %q, want %q; %v", line[:n], want, err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}
}
