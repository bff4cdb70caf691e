package era

import (
	"context"
	"slices"
	"sync"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// maxTasksHeard bounds the tasks that one stream hears of.
const maxTasksHeard = 50

// hearing are the tasks that one stream hears of.
type hearing struct {
	// ids are those agreed, in the order asked for.
	ids []string
	// C has a value when there is something to send.
	C     chan struct{}
	stops []func()
	mu    sync.Mutex
	dirty map[string]struct{}
}

// hear follows the tasks that this client may know of. All of them are to be
// sent at first: what happened before is not heard.
func (s *Server) hear(ctx context.Context, r *Request, ids []string) (*hearing, error) {
	h := &hearing{C: make(chan struct{}, 1), dirty: map[string]struct{}{}}
	if ids == nil {
		return h, nil
	}
	if err := mayUseTasks(r.Message); err != nil {
		return nil, err
	}
	if len(ids) > maxTasksHeard {
		return nil, fault.New(fault.TooLarge, "one stream subscribes to at most %d tasks", maxTasksHeard)
	}
	for _, id := range ids {
		if slices.Contains(h.ids, id) {
			continue
		}
		_, err := s.gateway.Do(ctx, s.taskCall(r, mcp.MethodTasksGet, id), nil)
		if fault.Is(err, fault.UnknownTask) {
			continue
		}
		var stop func()
		if err == nil {
			stop, err = s.gateway.OnTask(id, func() { h.changed(id) })
		}
		if err != nil {
			h.close()
			return nil, err
		}
		h.ids, h.stops = append(h.ids, id), append(h.stops, stop)
		h.changed(id)
	}
	return h, nil
}

func (h *hearing) changed(id string) {
	h.mu.Lock()
	h.dirty[id] = struct{}{}
	h.mu.Unlock()
	select {
	case h.C <- struct{}{}:
	default:
	}
}

func (h *hearing) close() {
	for _, stop := range h.stops {
		stop()
	}
}

// sendTasks sends every task that has changed, as it is now.
func (s *Server) sendTasks(ctx context.Context, r *Request, x Exchange, h *hearing, meta []byte) {
	h.mu.Lock()
	dirty := h.dirty
	h.dirty = map[string]struct{}{}
	h.mu.Unlock()
	for _, id := range h.ids {
		if _, changed := dirty[id]; !changed {
			continue
		}
		answer, err := s.gateway.Do(ctx, s.taskCall(r, mcp.MethodTasksGet, id), nil)
		if err != nil {
			continue // expired, or the client may not know of it any more
		}
		params := append(append([]byte(`{"_meta":{`), meta...), '}')
		x.Notify(notification(mcp.NotifyTask, appendTask(params, answer.Task, true)))
	}
}
