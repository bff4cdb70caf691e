package era

import (
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// changes are the notifications of list changes, in the order they are sent.
var changes = []struct {
	change catalogue.Change
	method string
}{
	{catalogue.ToolsChanged, mcp.NotifyToolsChanged},
	{catalogue.PromptsChanged, mcp.NotifyPromptsChanged},
	{catalogue.ResourcesChanged, mcp.NotifyResourcesChanged},
}

// listen answers subscriptions/listen: an acknowledgement, then the changes
// the client opted in to, until it or the server ends the stream.
func (s *Server) listen(ctx context.Context, r *Request, x Exchange) {
	var want struct {
		Tools     bool           `json:"toolsListChanged,omitzero"`
		Prompts   bool           `json:"promptsListChanged,omitzero"`
		Resources bool           `json:"resourcesListChanged,omitzero"`
		URIs      []string       `json:"resourceSubscriptions,omitempty"`
		TaskIDs   []string       `json:"taskIds,omitempty"`
		Rest      jsontext.Value `json:",inline"`
	}
	if r.Message.P.Notifications == nil {
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.notifications is missing"))
		return
	}
	if err := json.Unmarshal(r.Message.P.Notifications, &want); err != nil {
		s.Refuse(r, x, fault.New(fault.InvalidParams, "params.notifications holds a member of the wrong type").Because(err))
		return
	}
	var mask catalogue.Change
	agreed := []byte("{")
	for _, opt := range []struct {
		on     bool
		change catalogue.Change
		name   string
	}{
		{want.Tools, catalogue.ToolsChanged, "toolsListChanged"},
		{want.Prompts, catalogue.PromptsChanged, "promptsListChanged"},
		{want.Resources, catalogue.ResourcesChanged, "resourcesListChanged"},
	} {
		if opt.on {
			mask |= opt.change
			agreed = append(append(append(separate(agreed), '"'), opt.name...), `":true`...)
		}
	}
	slices.Sort(want.URIs)
	want.URIs = slices.Compact(want.URIs)
	if len(want.URIs) > maxSubscribed {
		s.Refuse(r, x, fault.New(fault.TooLarge, "one stream subscribes to at most %d resources", maxSubscribed))
		return
	}
	for _, uri := range want.URIs {
		if err := catalogue.CheckURI(uri); err != nil {
			s.Refuse(r, x, err)
			return
		}
	}
	tasks, err := s.hear(ctx, r, want.TaskIDs)
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	defer tasks.close()
	var wants func(string) bool
	if len(want.URIs) > 0 {
		wants = func(uri string) bool { _, found := slices.BinarySearch(want.URIs, uri); return found }
		list, err := json.Marshal(want.URIs)
		if err != nil {
			s.Refuse(r, x, err)
			return
		}
		agreed = append(append(separate(agreed), `"resourceSubscriptions":`...), list...)
	}
	if len(tasks.ids) > 0 {
		list, err := json.Marshal(tasks.ids)
		if err != nil {
			s.Refuse(r, x, err)
			return
		}
		agreed = append(append(separate(agreed), `"taskIds":`...), list...)
	}
	agreed = append(agreed, '}')

	sub := s.gateway.Catalogue().Subscribe(s.tenant(ctx, r.Credentials), wants)
	defer sub.Close()
	meta := []byte(`"` + mcp.MetaSubscriptionID + `":`)
	meta = append(meta, r.Message.ID...)
	params := append(append([]byte(`{"_meta":{`), meta...), `},"notifications":`...)
	x.Notify(notification(mcp.NotifyAcknowledged, append(append(params, agreed...), '}')))
	bare := append(append([]byte(`{"_meta":{`), meta...), `}}`...)
	for {
		select {
		case <-sub.C:
			changed, uris := sub.Take()
			sendChanges(x, changed&mask, bare)
			for _, uri := range uris {
				x.Notify(updated(uri, meta))
			}
		case <-tasks.C:
			s.sendTasks(ctx, r, x, tasks, meta)
		case <-s.closing:
			s.result(r, x, complete, nil, append(append([]byte{'{'}, meta...), '}'), "")
			return
		case <-ctx.Done():
			return
		}
	}
}

func sendChanges(x Exchange, c catalogue.Change, params []byte) {
	for _, n := range changes {
		if c&n.change != 0 {
			x.Notify(notification(n.method, params))
		}
	}
}
