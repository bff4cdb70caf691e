package workspace

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/mediatype"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
	"github.com/busbar-mcp/busbar/services/workspace/internal/watch"
)

const maxSuggestions = 100

func (w *workspace) addResources() {
	w.AddResourceTemplate(mcp.ResourceTemplate{
		URITemplate: root.Scheme + "{root}/{+path}", Name: "workspace", Title: "File of the workspace",
		Description: "A file of a workspace root, named by the root's name and the path in it.",
	}, w.readResource, map[string]service.CompleteFunc{"root": w.completeRoot, "path": w.completePath})
}

func (w *workspace) readResource(_ context.Context, call *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
	v, err := w.view(call)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	p, err := v.FindURI(uri)
	var c file.Content
	if err == nil {
		c, err = file.Read(p)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	out := mcp.ResourceContents{URI: uri, MIMEType: mediatype.Of(p.Path)}
	if out.MIMEType == "" {
		out.MIMEType = http.DetectContentType(c.Data)
	}
	if out.Text = string(c.Data); !file.IsText(c.Data) {
		out.Text, out.Blob = "", c.Data
	}
	return []mcp.ResourceContents{out}, nil
}

// toComplete returns the view for a completion. During a completion the protocol does not allow asking the
// client for its roots, so the names come from everything configured.
func (w *workspace) toComplete(call *service.Call) *root.View {
	v, err := w.roots.View(call.Tenant(), nil)
	if err != nil {
		return nil
	}
	return v
}

func (w *workspace) completeRoot(_ context.Context, call *service.Call, typed string, _ map[string]string) ([]string, error) {
	names := []string{}
	if v := w.toComplete(call); v != nil {
		for _, p := range v.Places() {
			if strings.HasPrefix(p.Name, typed) {
				names = append(names, p.Name)
			}
		}
	}
	return names, nil
}

// completePath suggests the entries of the typed directory. Directories end in a slash, to continue from.
func (w *workspace) completePath(_ context.Context, call *service.Call, typed string, others map[string]string) ([]string, error) {
	suggestions := []string{}
	v := w.toComplete(call)
	if v == nil {
		return suggestions, nil
	}
	name := others["root"]
	if places := v.Places(); name == "" && len(places) == 1 {
		name = places[0].Name
	}
	dir, begun := path.Split(typed)
	p, err := v.Find(name + "/" + dir)
	if err != nil {
		return suggestions, nil
	}
	for after, more := "", true; more && len(suggestions) < maxSuggestions; more = after != "" {
		var entries []file.Described
		if entries, after, err = file.List(p, after, 1000); err != nil {
			return suggestions, nil
		}
		for _, e := range entries {
			name := path.Base(e.Path)
			if !strings.HasPrefix(name, begun) || name == ".git" {
				continue
			}
			if e.Type == "dir" {
				name += "/"
			}
			suggestions = append(suggestions, dir+name)
		}
	}
	return suggestions, nil
}

// watchRoots notifies subscribers of changed files.
func (w *workspace) watchRoots() {
	w.Go(func(ctx context.Context, _ *bus.Conn) error {
		var all sync.WaitGroup
		for _, r := range w.roots.All() {
			all.Go(func() {
				err := watch.Watch(ctx, r, func(paths []string) { w.tell(ctx, r, paths) }, func(err error) {
					w.Logger().Warn("subscribers miss some changes of files", "root", r.Name, "error", err)
				})
				if err != nil {
					w.Logger().Warn("subscribers miss all changes of files", "root", r.Name, "error", err)
				}
			})
		}
		all.Wait()
		return nil
	})
}

// tell publishes that files have changed.
func (w *workspace) tell(ctx context.Context, r *root.Root, paths []string) {
	updates := make([]service.ResourceUpdate, len(paths))
	for i, p := range paths {
		updates[i] = service.ResourceUpdate{URI: root.URI(r.Name, p), Tenant: r.Tenant}
	}
	telling, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := w.ResourcesUpdated(telling, updates...); err != nil && ctx.Err() == nil {
		w.Logger().Warn("subscribers missed changes of files", "root", r.Name, "files", len(paths), "error", err)
	}
}
