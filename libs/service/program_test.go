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

// A service reads its settings from the environment. Its data directory comes from its process or
// follows from its name.
func TestSettingsOfAService(t *testing.T) {
	for variable, value := range map[string]string{
		"SHAPE_TEST_ROOTS": "a,b", "XDG_STATE_HOME": "/state", "BUSBAR_DATA_DIR": "", "BUSBAR_DATABASE_URL": "postgres://environment",
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
	for _, place := range []struct{ url, dir, wantURL, wantDir string }{
		{"", "", "postgres://environment", "/state/busbar/svc"},
		{"", "/given", "", "/given"},
		{"postgres://given", "/given", "postgres://given", "/given"},
	} {
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

// TestDataDirectoriesAreOne: a service keeps its data in one place, whichever
// program runs it.
func TestDataDirectoriesAreOne(t *testing.T) {
	conn := bustest.Connect(t, bustest.Server(t))
	for env, want := range map[[3]string]string{
		{"/data", "/state", "/home/ada"}: "/data",
		{"", "/state", "/home/ada"}:      "/state/busbar/svc",
		{"", "", "/home/ada"}:            "/home/ada/.local/state/busbar/svc",
	} {
		for i, variable := range []string{"BUSBAR_DATA_DIR", "XDG_STATE_HOME", "HOME"} {
			t.Setenv(variable, env[i])
		}
		running, err := service.NewCommand("svc", func(_ context.Context, env service.DataEnv) (*service.Service, error) {
			if env.DataDir != want {
				t.Errorf("data is in %s, want %s", env.DataDir, want)
			}
			return quiet(t, "svc"), nil
		}).Start(t.Context(), conn, service.DataEnv{})
		if err != nil {
			t.Fatal(err)
		}
		if err := running.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
