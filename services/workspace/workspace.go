// Package workspace is the service for files, git and commands, for a model that works on code. It reads,
// searches and changes only the configured directories, its roots. Each call goes through an os.Root, so
// neither a path nor a link nor a race leaves a root; the roots that a client declares narrow that
// further. Files are also resources, and subscribers hear of their changes. Start at New; each tool is a
// function in read.go, write.go, git.go or ci.go.
package workspace

import (
	"context"
	"errors"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Env holds the settings of the service.
type Env struct {
	service.Env
	// Roots are written NAME=DIR, or TENANT/NAME=DIR for one tenant only.
	Roots []string `name:"workspace-root" env:"BUSBAR_WORKSPACE_ROOTS" placeholder:"NAME=DIR" help:"Directories that the tools may read and change: main=/srv/code,docs=/srv/docs. acme/main=/srv/acme is for tenant acme only."`
	CI
}

// workspace is the service.
type workspace struct {
	*service.Service
	roots *root.Roots
}

// New opens the roots and makes the service "workspace".
func New(_ context.Context, env Env) (*service.Service, error) {
	roots, err := root.Open(env.Roots)
	if err != nil {
		return nil, err
	}
	w := &workspace{roots: roots, Service: service.New("workspace", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Files, git and commands in configured directories, for models that work on code"))}
	w.OnStop(func() { _ = roots.Close() })
	w.addReaders()
	w.addWriters()
	w.addGit()
	if err := w.addCI(env.CI); err != nil {
		return nil, errors.Join(err, roots.Close())
	}
	if len(roots.All()) > 0 {
		w.addResources()
		w.watchRoots()
	}
	return w.Service, nil
}

// view returns the directories that a call may use. It asks a client with roots for them.
func (w *workspace) view(call *service.Call) (*root.View, error) {
	var client []string
	if call.Can("roots") {
		answers, err := call.Ask(service.Roots("roots"))
		if err != nil {
			return nil, err
		}
		said, err := answers.Roots("roots")
		if err != nil {
			return nil, err
		}
		for _, r := range said {
			client = append(client, r.URI)
		}
	}
	return w.roots.View(call.Tenant(), client)
}

// add adds a tool and passes its handler the view of the call.
func add[In, Out any](w *workspace, t service.Tool, handler func(ctx context.Context, v *root.View, in In) (Out, error)) {
	addCall(w, t, func(ctx context.Context, _ *service.Call, v *root.View, in In) (Out, error) {
		return handler(ctx, v, in)
	})
}

// addCall is add for a handler that also needs the call.
func addCall[In, Out any](w *workspace, t service.Tool, handler func(ctx context.Context, call *service.Call, v *root.View, in In) (Out, error)) {
	closed := false
	t.Annotations.OpenWorldHint = &closed
	service.AddTool(w.Service, t, func(ctx context.Context, call *service.Call, in In) (out Out, err error) {
		v, err := w.view(call)
		if err != nil {
			return out, err
		}
		defer v.Close()
		out, err = handler(ctx, call, v, in)
		if errors.Is(err, context.DeadlineExceeded) {
			err = service.Errorf("the call took too long; ask for less")
		}
		return out, err
	})
}

// reader and writer return a tool that reads, or one that changes something and needs a person's approval
// for each call.
func reader(name, title, description string) service.Tool {
	return service.Tool{Name: name, Title: title, Description: description, ReadOnly: true, Idempotent: true}
}

func writer(name, title, description string, destructive bool) service.Tool {
	return service.Tool{Name: name, Title: title, Description: description, RequiresUserApproval: true, Annotations: mcp.ToolAnnotations{DestructiveHint: &destructive}}
}

// page checks the limit of a list and applies its default.
func page(limit, usual, most int) (int, error) {
	switch {
	case limit == 0:
		return usual, nil
	case limit < 0 || limit > most:
		return 0, service.Errorf("limit is %d; give a number from 1 to %d", limit, most)
	}
	return limit, nil
}
