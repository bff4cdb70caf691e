package protocol

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
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

// wanted are the changes that a client opts in to.
type wanted struct {
	Tools     bool     `json:"toolsListChanged,omitzero"`
	Prompts   bool     `json:"promptsListChanged,omitzero"`
	Resources bool     `json:"resourcesListChanged,omitzero"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	TaskIDs   []string `json:"taskIds,omitempty"`
}

// readWanted reads params.notifications of subscriptions/listen.
func readWanted(notifications []byte) (w wanted, err error) {
	if notifications == nil {
		return w, missing("notifications")
	}
	if err := json.Unmarshal(notifications, &w); err != nil {
		return w, fault.New(fault.InvalidParams, "params.notifications holds a member of the wrong type").Because(err)
	}
	slices.Sort(w.URIs)
	w.URIs = slices.Compact(w.URIs)
	if len(w.URIs) > maxSubscribed {
		return w, fault.New(fault.TooLarge, "one stream subscribes to at most %d resources", maxSubscribed)
	}
	size := 0
	for _, uri := range w.URIs {
		if err := catalogue.CheckURI(uri); err != nil {
			return w, err
		}
		size += len(uri)
	}
	if size > maxSubscribedBytes {
		return w, fault.New(fault.TooLarge, "the URIs that one stream subscribes to have at most %d bytes together", maxSubscribedBytes)
	}
	return w, nil
}

// lists are the changes of lists among them.
func (w *wanted) lists() (c catalogue.Change) {
	if w.Tools {
		c |= catalogue.ToolsChanged
	}
	if w.Prompts {
		c |= catalogue.PromptsChanged
	}
	if w.Resources {
		c |= catalogue.ResourcesChanged
	}
	return c
}

func (w *wanted) resource(uri string) bool {
	_, found := slices.BinarySearch(w.URIs, uri)
	return found
}

// listen answers subscriptions/listen: an acknowledgement, then the changes
// the client opted in to, until it or the server ends the stream.
func (s *Server) listen(ctx context.Context, r *Request, _ Sender) (reply, error) {
	want, err := readWanted(r.Message.P.Notifications)
	if err != nil {
		return reply{}, err
	}
	lease, err := s.gateway.Lease(ctx, r.Door, r.Credentials)
	if err != nil {
		return reply{}, err
	}
	tasks, err := s.subscribeTasks(lease.Context(), r, want.TaskIDs)
	if err != nil {
		lease.Close()
		return reply{}, err
	}
	want.TaskIDs = tasks.ids // those that it may know of
	r.Message = remembered(r.Message)
	var updates func(uri string) bool
	if len(want.URIs) > 0 {
		updates = want.resource
	}
	l := &listening{server: s, r: r, want: &want, lease: lease, tasks: tasks, sub: lease.Subscribe(updates)}
	return reply{rest: l.run}, nil
}

// remembered is what a stream needs of the message that opened it, and may outlive by days.
// What else the client sent, up to the largest body for each stream, is let go.
func remembered(m *mcp.Message) *mcp.Message {
	kept := &mcp.Message{Kind: m.Kind, ID: slices.Clone(m.ID), Method: mcp.MethodListen}
	p := &m.P
	if len(p.ClientInfo)+len(p.ClientCapabilities)+len(p.Traceparent)+len(p.Tracestate) <= maxClientBytes {
		kept.P = mcp.Params{
			ClientInfo: slices.Clone(p.ClientInfo), ClientCapabilities: slices.Clone(p.ClientCapabilities),
			Traceparent: strings.Clone(p.Traceparent), Tracestate: strings.Clone(p.Tracestate),
		}
	}
	return kept
}

// listening is a stream of what a client opted in to.
type listening struct {
	server *Server
	r      *Request
	want   *wanted
	lease  *gateway.Lease
	tasks  *taskSubscription
	sub    *catalogue.Subscription
}

// run sends what there is to hear of, and waits for a slow client: it hears the latest of
// everything, and what happens several times meanwhile once.
func (l *listening) run(out Sender) (reply, error) {
	defer l.lease.Close()
	defer l.tasks.close()
	defer l.sub.Close()
	agreed, err := json.Marshal(l.want)
	if err != nil {
		return reply{}, err
	}
	meta := append([]byte(`"`+mcp.MetaSubscriptionID+`":`), l.r.Message.ID...)
	params := append(append([]byte(`{"_meta":{`), meta...), `},"notifications":`...)
	out.Send(notification(mcp.NotifyAcknowledged, append(append(params, agreed...), '}')))
	bare := append(append([]byte(`{"_meta":{`), meta...), `}}`...)
	for {
		select {
		case <-l.sub.C:
			changed, uris := l.sub.Take()
			sendChanges(out, changed&l.want.lists(), bare)
			for _, uri := range uris {
				out.Send(updated(uri, meta))
			}
		case <-l.tasks.C:
			l.sendTasks(out, meta)
		case <-l.server.closing:
			return reply{resultType: complete, meta: object(meta)}, nil
		case <-l.lease.Context().Done():
			return reply{}, l.lease.Ended()
		}
	}
}

func sendChanges(out Sender, c catalogue.Change, params []byte) {
	for _, n := range changes {
		if c&n.change != 0 {
			out.Send(notification(n.method, params))
		}
	}
}

// maxTasks bounds the tasks that one stream subscribes to.
//
//limit:connection tasks of one stream of `subscriptions/listen` | `too_large`
const maxTasks = 50

// taskSubscription is what one stream gets of tasks.
type taskSubscription struct {
	// ids are those agreed, in the order asked for.
	ids []string
	// C has a value when there is something to send.
	C     chan struct{}
	stops []func()
	mu    sync.Mutex
	dirty map[string]struct{}
}

// subscribeTasks follows the tasks that this client may know of. All of them are
// to be sent at first: what happened before brings no notification.
func (s *Server) subscribeTasks(ctx context.Context, r *Request, ids []string) (*taskSubscription, error) {
	t := &taskSubscription{C: make(chan struct{}, 1), dirty: map[string]struct{}{}}
	if ids == nil {
		return t, nil
	}
	if err := mayUseTasks(r.Message); err != nil {
		return nil, err
	}
	if len(ids) > maxTasks {
		return nil, fault.New(fault.TooLarge, "one stream subscribes to at most %d tasks", maxTasks)
	}
	for _, id := range ids {
		if slices.Contains(t.ids, id) {
			continue
		}
		_, err := s.gateway.Do(ctx, s.taskCall(r, mcp.MethodTasksGet, id), nil)
		if fault.Is(err, fault.UnknownTask) {
			continue
		}
		var stop func()
		if err == nil {
			stop, err = s.tasks.OnWrite(id, func() { t.changed(id) })
		}
		if err != nil {
			t.close()
			return nil, err
		}
		t.ids, t.stops = append(t.ids, id), append(t.stops, stop)
		t.changed(id)
	}
	return t, nil
}

func (t *taskSubscription) changed(id string) {
	t.mu.Lock()
	t.dirty[id] = struct{}{}
	t.mu.Unlock()
	select {
	case t.C <- struct{}{}:
	default:
	}
}

// take takes the tasks that have changed.
func (t *taskSubscription) take() map[string]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	dirty := t.dirty
	t.dirty = map[string]struct{}{}
	return dirty
}

func (t *taskSubscription) close() {
	for _, stop := range t.stops {
		stop()
	}
}

// sendTasks sends every task that has changed, as it is now.
func (l *listening) sendTasks(out Sender, meta []byte) {
	now := *l.r
	now.Credentials = l.lease.Credentials()
	dirty := l.tasks.take()
	for _, id := range l.tasks.ids {
		if _, changed := dirty[id]; changed {
			l.sendTask(&now, id, out, meta)
		}
	}
}

func (l *listening) sendTask(r *Request, id string, out Sender, meta []byte) {
	ctx, release := l.server.gateway.Track(l.lease.Context())
	defer release()
	answer, err := l.server.gateway.Do(ctx, l.server.taskCall(r, mcp.MethodTasksGet, id), nil)
	if err != nil {
		return // expired, or the client may not know of it any more
	}
	params := append(append([]byte(`{"_meta":{`), meta...), '}')
	out.Send(notification(mcp.NotifyTask, appendTask(params, answer.Task, true)))
}
