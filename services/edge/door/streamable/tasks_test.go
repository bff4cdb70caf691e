package streamable_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// task makes a request of a client that accepts tasks.
func task(t testing.TB, at *edgetest.Edge, method, id, more string) edgetest.Reply {
	t.Helper()
	return at.Post(t, modern(method, id), edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":"`+id+`"`+more)))
}

// beginTask calls a tool whose call must become a task, and returns its id.
func beginTask(t testing.TB, w *edgetest.World, tool string) string {
	t.Helper()
	m := w.Post(t, modern(mcp.MethodToolsCall, tool), edgetest.TakingTasks(edgetest.Call("1", tool, "{}"))).Message(t)
	var task struct {
		ResultType string         `json:"resultType"`
		TaskID     string         `json:"taskId"`
		Status     string         `json:"status"`
		Created    time.Time      `json:"createdAt"`
		Updated    time.Time      `json:"lastUpdatedAt"`
		TTL        int            `json:"ttlMs"`
		Poll       int            `json:"pollIntervalMs"`
		Meta       jsontext.Value `json:"_meta"`
	}
	if err := json.Unmarshal(m.Result, &task, json.RejectUnknownMembers(true)); err != nil {
		t.Fatalf("%v in %s", err, m.Result)
	}
	if task.ResultType != "task" || task.Status != "working" || task.TTL != 7_200_000 || task.Poll <= 0 || task.TaskID == "" ||
		time.Since(task.Created) > bustest.Patience || task.Updated.Before(task.Created) {
		t.Fatalf("created %+v", task)
	}
	return task.TaskID
}

// becomes polls a task until it has a status.
func becomes(t testing.TB, w *edgetest.World, id, status string) edgetest.Message {
	t.Helper()
	var m edgetest.Message
	bustest.Eventually(t, "the task is "+status, func() bool {
		m = task(t, w.Edge, mcp.MethodTasksGet, id, "").Message(t)
		return m.Field("status") == `"`+status+`"`
	})
	return m
}

func TestTask(t *testing.T) {
	t.Parallel()
	w := start(t)
	other := w.Join(t)
	id := beginTask(t, w, "hold-task")
	w.Svc.Running(t)
	m := task(t, other, mcp.MethodTasksGet, id, "").Message(t)
	for name, want := range map[string]string{"resultType": `"complete"`, "taskId": `"` + id + `"`, "status": `"working"`, "result": "", "error": "", "inputRequests": ""} {
		if got := m.Field(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	w.Svc.Release <- struct{}{}
	m = becomes(t, w, id, "completed")
	if got := m.Field("result"); got != `{"resultType":"complete","content":[{"type":"text","text":"released"}]}` {
		t.Errorf("result %s", got)
	}
	ack(t, task(t, w.Edge, mcp.MethodTasksCancel, id, ""))
	becomes(t, w, id, "completed")

	id = beginTask(t, w, "hold-task")
	w.Svc.Running(t)
	ack(t, task(t, other, mcp.MethodTasksCancel, id, ""))
	w.Svc.Over(t)
	m = becomes(t, w, id, "cancelled")
	if m.Field("result") != "" || m.Field("error") != "" {
		t.Errorf("cancelled: %s", m.Result)
	}
}

// ack requires the bare acknowledgement.
func ack(t testing.TB, r edgetest.Reply) {
	t.Helper()
	m := r.Message(t)
	var members map[string]jsontext.Value
	if m.Error != nil || json.Unmarshal(m.Result, &members) != nil || m.Field("resultType") != `"complete"` {
		t.Fatalf("answer %s", r.Bytes)
	}
	if names := slices.Sorted(maps.Keys(members)); strings.Join(names, " ") != "_meta resultType" {
		t.Errorf("acknowledged with %v", names)
	}
}

func TestTaskAsks(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := beginTask(t, w, "ask-task")
	m := becomes(t, w, id, "input_required")
	if got := m.Field("inputRequests", "one", "method"); got != `"elicitation/create"` || m.Field("inputRequests", "two") == "" {
		t.Errorf("asks %s", m.Result)
	}
	const accepted = `{"action":"accept","content":{}}`
	ack(t, task(t, w.Edge, mcp.MethodTasksUpdate, id, `,"inputResponses":{"one":`+accepted+`,"unknown":{}}`))
	m = becomes(t, w, id, "input_required")
	if m.Field("inputRequests", "one") != "" || m.Field("inputRequests", "two") == "" {
		t.Errorf("with one answer asks %s", m.Result)
	}
	ack(t, task(t, w.Edge, mcp.MethodTasksUpdate, id, `,"inputResponses":{"two":`+accepted+`}`))
	if m = becomes(t, w, id, "completed"); !strings.Contains(m.Field("result"), "answered") {
		t.Errorf("completed %s", m.Result)
	}
	ack(t, task(t, w.Edge, mcp.MethodTasksUpdate, id, `,"inputResponses":{"two":`+accepted+`}`))
}

func TestTaskFails(t *testing.T) {
	t.Parallel()
	w := start(t)
	m := becomes(t, w, beginTask(t, w, "break-task"), "failed")
	if got := m.Field("error"); got != `{"code":1409,"message":"not\nnow","data":{"reason":"conflict","executed":"no","detail":"d"}}` || m.Field("result") != "" {
		t.Errorf("failed: %s", m.Result)
	}
	m = becomes(t, w, beginTask(t, w, "big-task"), "failed")
	if got := m.Field("error", "data"); got != `{"reason":"result_too_large","executed":"yes"}` {
		t.Errorf("failed: %s", m.Result)
	}
}

// A client that does not declare the extension sees nothing of tasks.
func TestTaskOfWhoTakesNone(t *testing.T) {
	t.Parallel()
	w := start(t)
	const lacks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if m := w.Call(t, "later", `{"a":1}`).Message(t); m.Text() != `{"a":1}` || m.Field("resultType") != `"complete"` {
		t.Errorf("answer %+v", m)
	}
	if m := w.Call(t, "hold-task", "{}").Refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
		t.Errorf("answer %+v", m)
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		r := w.Ask(t, method, "x", `"taskId":"x"`)
		if m := r.Refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
			t.Errorf("%s: %+v", method, m)
		}
	}
	r := w.Post(t, modern(mcp.MethodListen, ""), listen("1", `{"taskIds":[]}`))
	if m := r.Refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
		t.Errorf("listen: %+v", m)
	}
	// An earlier version has no tasks of this kind, whatever its client says.
	h := w.Initialize(t, mcp.V20251125, lacks)
	if m := w.Post(t, h, edgetest.Legacy("1", mcp.MethodToolsCall, `"name":"later","arguments":{},"task":{"ttl":1}`)).Answer(t); m.Text() != `{}` {
		t.Errorf("legacy: %+v", m)
	}
	w.Post(t, h, edgetest.LegacyCall("1", "hold-task", "{}")).Refused(t, http.StatusOK, mcp.CodeInvalidRequest, "missing_capability")
	for _, method := range []string{mcp.MethodTasksGet, "tasks/list", "tasks/result", mcp.MethodTasksCancel} {
		w.Post(t, h, edgetest.Legacy("1", method, `"taskId":"x"`)).Refused(t, http.StatusOK, mcp.CodeMethodNotFound, "method_not_found")
	}
}

func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := beginTask(t, w, "later")
	becomes(t, w, id, "completed")
	unknown := id[:len(id)-1] + "7"
	if unknown == id {
		unknown = id[:len(id)-1] + "A"
	}
	for _, wrong := range []string{unknown, strings.ToLower(id), "Q", "svc.>", strings.Repeat("x", 5000)} {
		for method, more := range map[string]string{mcp.MethodTasksGet: "", mcp.MethodTasksUpdate: `,"inputResponses":{}`, mcp.MethodTasksCancel: ""} {
			m := task(t, w.Edge, method, wrong, more).Refused(t, http.StatusOK, mcp.CodeInvalidParams, "unknown_task")
			if strings.Contains(m.Error.Message, wrong) {
				t.Errorf("message %q", m.Error.Message)
			}
		}
	}
	task(t, w.Edge, mcp.MethodTasksUpdate, id, "").Refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	task(t, w.Edge, mcp.MethodTasksUpdate, id, `,"inputResponses":[]`).Refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	for _, method := range []string{"tasks/result", "tasks/list"} {
		w.Post(t, modern(method, ""), edgetest.TakingTasks(edgetest.Request("1", method, ""))).Refused(t, http.StatusNotFound, mcp.CodeMethodNotFound, "method_not_found")
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		good := edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":"`+id+`"`))
		for _, h := range []header{modern(method, ""), modern(method, "other"), modern(mcp.MethodToolsCall, id)} {
			w.Post(t, h, good).Refused(t, http.StatusBadRequest, mcp.CodeHeaderMismatch, "header_mismatch")
		}
		missing := header{mcp.HeaderProtocolVersion: mcp.Modern, mcp.HeaderMethod: method, mcp.HeaderName: ""}
		w.Post(t, missing, edgetest.TakingTasks(edgetest.Request("1", method, ""))).Refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
		w.Post(t, modern(method, "1"), edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":1`))).Refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	}
}

// A stream announces the same states of a task as tasks/get, from the first to the last.
func TestTaskNotifications(t *testing.T) {
	t.Parallel()
	w := start(t)
	other := w.Join(t)
	id, over := beginTask(t, w, "hold-task"), beginTask(t, w, "later")
	w.Svc.Running(t)
	becomes(t, w, over, "completed")
	want := fmt.Sprintf(`{"taskIds":["%s","%s","unknown","%s"],"toolsListChanged":true}`, over, id, over)
	s := other.Open(t, modern(mcp.MethodListen, ""), edgetest.TakingTasks(listen("7", want)))
	m := s.Await()
	if agreed := fmt.Sprintf(`{"toolsListChanged":true,"taskIds":["%s","%s"]}`, over, id); m.Method != mcp.NotifyAcknowledged || m.Param("notifications") != agreed {
		t.Fatalf("acknowledged %s", m.Params)
	}
	tells := func(id, status string) edgetest.Message {
		t.Helper()
		for {
			m := s.Await()
			if m.Method != mcp.NotifyTask || m.Param("_meta") != `{"io.modelcontextprotocol/subscriptionId":7}` || m.Param("resultType") != "" {
				t.Fatalf("%s %s", m.Method, m.Params)
			}
			if m.Param("taskId") == `"`+id+`"` && m.Param("status") == `"`+status+`"` {
				return m
			}
		}
	}
	if m := tells(over, "completed"); !strings.Contains(m.Param("result"), `"content"`) {
		t.Errorf("told %s", m.Params)
	}
	tells(id, "working")
	w.Svc.Release <- struct{}{}
	m = tells(id, "completed")
	got := task(t, w.Edge, mcp.MethodTasksGet, id, "").Message(t)
	for _, name := range []string{"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "result"} {
		if m.Param(name) == "" || m.Param(name) != got.Field(name) {
			t.Errorf("%s: told %s, got %s", name, m.Param(name), got.Field(name))
		}
	}
	s.Close()

	many := strings.Repeat(`"x",`, 50) + `"x"`
	w.Post(t, modern(mcp.MethodListen, ""), edgetest.TakingTasks(listen("1", `{"taskIds":[`+many+`]}`))).Refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large")
}
