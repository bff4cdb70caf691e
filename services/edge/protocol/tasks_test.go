package protocol_test

import (
	"bytes"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// FuzzTask puts a task as a service stored it into an answer: an object of one line, with what
// the service said and nothing more.
func FuzzTask(f *testing.F) {
	f.Add("half way", "unavailable", []byte(`{"content":[]}`), []byte(`{"a":1}`), uint64(1))
	f.Add("\xff\n\"", "", []byte("{\r\n \"a\": 1\n}"), []byte("{\n}"), uint64(time.Now().UnixNano()))
	f.Add("", "conflict", []byte(``), []byte(``), uint64(1<<63))
	statuses := map[busv1.TaskStatus]string{1: "working", 2: "input_required", 3: "completed", 4: "failed", 5: "cancelled"}
	f.Fuzz(func(t *testing.T, text, reason string, body, meta []byte, when uint64) {
		in, bodyOK := members(body)
		own, metaOK := members(meta)
		if !bodyOK || !metaOK || has(in, "resultType", "_meta") || has(own, "reason", "executed", "next", "retryAfterMs") {
			return // breaks the contract on the bus
		}
		if len(body) == 0 {
			body = []byte("{}")
		}
		for status, name := range statuses {
			rec := &busv1.TaskRecord{
				Request: &busv1.Request{Id: text, RequestState: []byte("secret")}, Status: status, StatusMessage: text, CreatedUnixNano: when, UpdatedUnixNano: when, TtlMs: when,
				InputRequests: body, Result: &busv1.Result{Json: bytes.Clone(body), Meta: bytes.Clone(meta)}, Error: &busv1.Error{Reason: reason, Message: text, Data: meta},
			}
			o := object(t, protocol.Task(rec))
			if string(o["status"]) != `"`+name+`"` || has(o, "requestState") {
				t.Errorf("said %v", o)
			}
			for member, of := range map[string]busv1.TaskStatus{"inputRequests": 2, "result": 3, "error": 4} {
				if has(o, member) != (of == status) {
					t.Errorf("a task that is %s: member %s is %s", name, member, o[member])
				}
			}
			switch status {
			case busv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
				same(t, in, object(t, o["inputRequests"]))
			case busv1.TaskStatus_TASK_STATUS_COMPLETED:
				result := object(t, o["result"])
				same(t, in, result)
				if len(own) > 0 {
					same(t, own, object(t, result["_meta"]))
				}
			case busv1.TaskStatus_TASK_STATUS_FAILED:
				same(t, own, object(t, object(t, o["error"])["data"]))
			}
		}
	})
}
