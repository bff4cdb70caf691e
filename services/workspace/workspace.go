// Package workspace is the Busbar service of files, git and commands, for a model that works on
// code: it reads, searches and changes what is under the directories that are
// configured, its roots, and nowhere else. Each call goes through an os.Root, so that neither a
// path nor a link nor a race leaves a root; what a client says of its own roots
// narrows that further. Files are resources too, whose changes are told.
package workspace

import (
	"context"
	"errors"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// Env says which directories are open.
type Env struct {
	service.Env
	// Roots are written NAME=DIR, or TENANT/NAME=DIR for one tenant's alone.
	Roots []string `name:"workspace-root" env:"BUSBAR_WORKSPACE_ROOTS" placeholder:"NAME=DIR" help:"Directories whose files the tools may read and change, each under a name: main=/srv/code,docs=/srv/docs. acme/main=/srv/acme is for tenant acme alone."`
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
		service.WithDescription("Files, git and commands of configured directories, for models that work on code"))}
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

// view is what a call may reach. A client that has roots is asked for them.
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

// add adds a tool whose handler gets what its call may reach.
func add[In, Out any](w *workspace, t service.Tool, handler func(ctx context.Context, v *root.View, in In) (Out, error)) {
	addCall(w, t, func(ctx context.Context, _ *service.Call, v *root.View, in In) (Out, error) {
		return handler(ctx, v, in)
	})
}

// addCall is add for a handler that looks at the call itself, too.
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
			err = service.Errorf("it took too long: ask for less of it")
		}
		return out, err
	})
}

// reader and writer are what tools that read, and tools that change something, have
// in common. A person agrees to each change.
func reader(name, title, description string) service.Tool {
	return service.Tool{Name: name, Title: title, Description: description, ReadOnly: true, Idempotent: true}
}

func writer(name, title, description string, destructive bool) service.Tool {
	return service.Tool{Name: name, Title: title, Description: description, RequiresUserApproval: true, Annotations: mcp.ToolAnnotations{DestructiveHint: &destructive}}
}

// page checks how many of something are wanted.
func page(limit, usual, most int) (int, error) {
	switch {
	case limit == 0:
		return usual, nil
	case limit < 0 || limit > most:
		return 0, service.Errorf("limit is from 1 to %d", most)
	}
	return limit, nil
}
