package protocol

import (
	"context"
	"strconv"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// task answers tasks/get, tasks/update and tasks/cancel (extension
// io.modelcontextprotocol/tasks).
func (s *Server) task(ctx context.Context, r *Request, _ Sender) (reply, error) {
	m := r.Message
	if err := mayUseTasks(m); err != nil {
		return reply{}, err
	}
	switch {
	case m.P.TaskID == "":
		return reply{}, missing("taskId")
	case m.Method == mcp.MethodTasksUpdate && m.P.InputResponses == nil:
		return reply{}, missing("inputResponses")
	}
	answer, err := s.gateway.Do(ctx, s.taskCall(r, m.Method, m.P.TaskID), nil)
	if err != nil || answer.Task == nil {
		return result(nil), err
	}
	return result(appendTask([]byte{'{'}, answer.Task, true)), nil
}

func (s *Server) taskCall(r *Request, method, id string) *gateway.Call {
	p := &r.Message.P
	return &gateway.Call{
		Door: r.Door, Method: method, Name: id, Credentials: r.Credentials,
		Client: s.client(r.Message), InputResponses: p.InputResponses,
		Traceparent: p.Traceparent, Tracestate: p.Tracestate, Protocol: r.Version,
	}
}

func mayUseTasks(m *mcp.Message) error {
	if mcp.Declares(m.P.ClientCapabilities, mcp.ExtensionTasks) {
		return nil
	}
	return gateway.NeedsTasks("tasks are used")
}

var taskStatuses = map[busv1.TaskStatus]string{
	busv1.TaskStatus_TASK_STATUS_WORKING: "working", busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED: "input_required",
	busv1.TaskStatus_TASK_STATUS_COMPLETED: "completed", busv1.TaskStatus_TASK_STATUS_FAILED: "failed",
	busv1.TaskStatus_TASK_STATUS_CANCELLED: "cancelled",
}

// appendTask adds the members of a Task to an object and closes it; with detail, also the members
// of a DetailedTask.
func appendTask(b []byte, t *busv1.TaskRecord, detail bool) []byte {
	b = appendQuoted(append(separate(b), `"taskId":`...), t.Request.Id)
	b = appendQuoted(append(b, `,"status":`...), taskStatuses[t.Status])
	if t.StatusMessage != "" {
		b = appendQuoted(append(b, `,"statusMessage":`...), t.StatusMessage)
	}
	b = appendTime(append(b, `,"createdAt":`...), t.CreatedUnixNano)
	b = appendTime(append(b, `,"lastUpdatedAt":`...), t.UpdatedUnixNano)
	b = strconv.AppendUint(append(b, `,"ttlMs":`...), t.TtlMs, 10)
	b = strconv.AppendUint(append(b, `,"pollIntervalMs":`...), uint64(t.PollIntervalMs), 10)
	if detail {
		b = appendDetail(b, t)
	}
	return append(b, '}')
}

func appendDetail(b []byte, t *busv1.TaskRecord) []byte {
	switch t.Status {
	case busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
		b = append(append(b, `,"inputRequests":`...), oneLine(t.InputRequests)...)
	case busv1.TaskStatus_TASK_STATUS_COMPLETED:
		b = append(b, `,"result":{"resultType":"complete"`...)
		if members := inner(oneLine(t.Result.GetJson())); len(members) > 0 {
			b = append(append(b, ','), members...)
		}
		if meta := oneLine(t.Result.GetMeta()); len(meta) > 0 {
			b = append(append(b, `,"_meta":`...), meta...)
		}
		b = append(b, '}')
	case busv1.TaskStatus_TASK_STATUS_FAILED:
		_, b = appendError(append(b, `,"error":`...), task.Error(t), mcp.Modern)
	}
	return b
}

// appendTime adds a time of ISO 8601, in milliseconds.
func appendTime(b []byte, unixNano uint64) []byte {
	b = append(b, '"')
	b = time.Unix(0, int64(unixNano)).UTC().AppendFormat(b, "2006-01-02T15:04:05.000Z07:00")
	return append(b, '"')
}
