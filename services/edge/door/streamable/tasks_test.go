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
func (w *world) task(t testing.TB, method, id, more string) reply {
	t.Helper()
	return w.taskAt(t, w.http.URL, method, id, more)
}

func (w *world) taskAt(t testing.TB, url, method, id, more string) reply {
	t.Helper()
	body := edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":"`+id+`"`+more))
	return w.do(t, w.request(t.Context(), t, url, modern(method, id), strings.NewReader(body)))
}

// beginTask calls a tool whose call must become a task, and returns its id.
func (w *world) beginTask(t testing.TB, tool string) string {
	t.Helper()
	m := w.post(t, modern(mcp.MethodToolsCall, tool), edgetest.TakingTasks(edgetest.Call("1", tool, "{}"))).message(t)
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
func (w *world) becomes(t testing.TB, id, status string) edgetest.Message {
	t.Helper()
	var m edgetest.Message
	eventually(t, "the task is "+status, func() bool {
		m = w.task(t, mcp.MethodTasksGet, id, "").message(t)
		return m.Field("status") == `"`+status+`"`
	})
	return m
}

func TestTask(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	id := w.beginTask(t, "hold-task")
	receive(t, "the task runs", w.svc.Started)
	m := w.taskAt(t, other.URL, mcp.MethodTasksGet, id, "").message(t)
	for name, want := range map[string]string{"resultType": `"complete"`, "taskId": `"` + id + `"`, "status": `"working"`, "result": "", "error": "", "inputRequests": ""} {
		if got := m.Field(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	w.svc.Release <- struct{}{}
	m = w.becomes(t, id, "completed")
	if got := m.Field("result"); got != `{"resultType":"complete","content":[{"type":"text","text":"released"}]}` {
		t.Errorf("result %s", got)
	}
	ack(t, w.task(t, mcp.MethodTasksCancel, id, ""))
	w.becomes(t, id, "completed")

	id = w.beginTask(t, "hold-task")
	receive(t, "the task runs", w.svc.Started)
	ack(t, w.taskAt(t, other.URL, mcp.MethodTasksCancel, id, ""))
	receive(t, "the handler is told", w.svc.Ended)
	m = w.becomes(t, id, "cancelled")
	if m.Field("result") != "" || m.Field("error") != "" {
		t.Errorf("cancelled: %s", m.Result)
	}
}

// ack requires the bare acknowledgement.
func ack(t testing.TB, r reply) {
	t.Helper()
	m := r.message(t)
	var members map[string]jsontext.Value
	if m.Error != nil || json.Unmarshal(m.Result, &members) != nil || m.Field("resultType") != `"complete"` {
		t.Fatalf("answer %s", r.body)
	}
	if names := slices.Sorted(maps.Keys(members)); strings.Join(names, " ") != "_meta resultType" {
		t.Errorf("acknowledged with %v", names)
	}
}

func TestTaskAsks(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.beginTask(t, "ask-task")
	m := w.becomes(t, id, "input_required")
	if got := m.Field("inputRequests", "one", "method"); got != `"elicitation/create"` || m.Field("inputRequests", "two") == "" {
		t.Errorf("asks %s", m.Result)
	}
	const accepted = `{"action":"accept","content":{}}`
	ack(t, w.task(t, mcp.MethodTasksUpdate, id, `,"inputResponses":{"one":`+accepted+`,"unknown":{}}`))
	m = w.becomes(t, id, "input_required")
	if m.Field("inputRequests", "one") != "" || m.Field("inputRequests", "two") == "" {
		t.Errorf("with one answer asks %s", m.Result)
	}
	ack(t, w.task(t, mcp.MethodTasksUpdate, id, `,"inputResponses":{"two":`+accepted+`}`))
	if m = w.becomes(t, id, "completed"); !strings.Contains(m.Field("result"), "answered") {
		t.Errorf("completed %s", m.Result)
	}
	ack(t, w.task(t, mcp.MethodTasksUpdate, id, `,"inputResponses":{"two":`+accepted+`}`))
}

func TestTaskFails(t *testing.T) {
	t.Parallel()
	w := start(t)
	m := w.becomes(t, w.beginTask(t, "break-task"), "failed")
	if got := m.Field("error"); got != `{"code":1409,"message":"not\nnow","data":{"reason":"conflict","executed":"no","detail":"d"}}` || m.Field("result") != "" {
		t.Errorf("failed: %s", m.Result)
	}
	m = w.becomes(t, w.beginTask(t, "big-task"), "failed")
	if got := m.Field("error", "data"); got != `{"reason":"result_too_large","executed":"yes"}` {
		t.Errorf("failed: %s", m.Result)
	}
}

// A client that does not declare the extension sees nothing of tasks.
func TestTaskOfWhoTakesNone(t *testing.T) {
	t.Parallel()
	w := start(t)
	const lacks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	if m := w.call(t, "later", `{"a":1}`).message(t); m.Text() != `{"a":1}` || m.Field("resultType") != `"complete"` {
		t.Errorf("answer %+v", m)
	}
	if m := w.call(t, "hold-task", "{}").refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
		t.Errorf("answer %+v", m)
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		r := w.post(t, modern(method, "x"), edgetest.Request("1", method, `"taskId":"x"`))
		if m := r.refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
			t.Errorf("%s: %+v", method, m)
		}
	}
	r := w.post(t, modern(mcp.MethodListen, ""), listen("1", `{"taskIds":[]}`))
	if m := r.refused(t, http.StatusBadRequest, mcp.CodeMissingCapability, "missing_capability"); string(m.Error.Data.Capabilities) != lacks {
		t.Errorf("listen: %+v", m)
	}
	// An earlier version has no tasks of this kind, whatever its client says.
	init := strings.Replace(edgetest.Initialize(mcp.V20251125), `"capabilities":{}`, `"capabilities":`+lacks, 1)
	opened := w.post(t, header{}, init)
	h := header{mcp.HeaderProtocolVersion: mcp.V20251125, mcp.HeaderSessionID: opened.Header.Get(mcp.HeaderSessionID)}
	if strings.Contains(string(opened.body), "tasks") {
		t.Errorf("initialize: %s", opened.body)
	}
	if m := w.post(t, h, edgetest.Legacy("1", mcp.MethodToolsCall, `"name":"later","arguments":{},"task":{"ttl":1}`)).answer(t); m.Text() != `{}` {
		t.Errorf("legacy: %+v", m)
	}
	w.post(t, h, edgetest.LegacyCall("1", "hold-task", "{}")).refused(t, http.StatusOK, mcp.CodeInvalidRequest, "missing_capability")
	for _, method := range []string{mcp.MethodTasksGet, "tasks/list", "tasks/result", mcp.MethodTasksCancel} {
		w.post(t, h, edgetest.Legacy("1", method, `"taskId":"x"`)).refused(t, http.StatusOK, mcp.CodeMethodNotFound, "method_not_found")
	}
}

func TestTaskRefusals(t *testing.T) {
	t.Parallel()
	w := start(t)
	id := w.beginTask(t, "later")
	w.becomes(t, id, "completed")
	unknown := id[:len(id)-1] + "7"
	if unknown == id {
		unknown = id[:len(id)-1] + "A"
	}
	for _, wrong := range []string{unknown, strings.ToLower(id), "Q", "svc.>", strings.Repeat("x", 5000)} {
		for method, more := range map[string]string{mcp.MethodTasksGet: "", mcp.MethodTasksUpdate: `,"inputResponses":{}`, mcp.MethodTasksCancel: ""} {
			m := w.task(t, method, wrong, more).refused(t, http.StatusOK, mcp.CodeInvalidParams, "unknown_task")
			if strings.Contains(m.Error.Message, wrong) {
				t.Errorf("message %q", m.Error.Message)
			}
		}
	}
	w.task(t, mcp.MethodTasksUpdate, id, "").refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	w.task(t, mcp.MethodTasksUpdate, id, `,"inputResponses":[]`).refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	for _, method := range []string{"tasks/result", "tasks/list"} {
		w.post(t, modern(method, ""), edgetest.TakingTasks(edgetest.Request("1", method, ""))).refused(t, http.StatusNotFound, mcp.CodeMethodNotFound, "method_not_found")
	}
	for _, method := range []string{mcp.MethodTasksGet, mcp.MethodTasksUpdate, mcp.MethodTasksCancel} {
		good := edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":"`+id+`"`))
		for _, h := range []header{modern(method, ""), modern(method, "other"), modern(mcp.MethodToolsCall, id)} {
			w.post(t, h, good).refused(t, http.StatusBadRequest, mcp.CodeHeaderMismatch, "header_mismatch")
		}
		missing := header{mcp.HeaderProtocolVersion: mcp.Modern, mcp.HeaderMethod: method, mcp.HeaderName: ""}
		w.post(t, missing, edgetest.TakingTasks(edgetest.Request("1", method, ""))).refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
		w.post(t, modern(method, "1"), edgetest.TakingTasks(edgetest.Request("1", method, `"taskId":1`))).refused(t, http.StatusBadRequest, mcp.CodeInvalidParams, "invalid_params")
	}
}

// A stream announces the same states of a task as tasks/get, from the first to the last.
func TestTaskNotifications(t *testing.T) {
	t.Parallel()
	w := start(t)
	_, other := w.join(t)
	id, over := w.beginTask(t, "hold-task"), w.beginTask(t, "later")
	receive(t, "the task runs", w.svc.Started)
	w.becomes(t, over, "completed")
	want := fmt.Sprintf(`{"taskIds":["%s","%s","unknown","%s"],"toolsListChanged":true}`, over, id, over)
	body := edgetest.TakingTasks(listen("7", want))
	s := w.open(t, w.request(t.Context(), t, other.URL, modern(mcp.MethodListen, ""), strings.NewReader(body)))
	m := s.await()
	if agreed := fmt.Sprintf(`{"toolsListChanged":true,"taskIds":["%s","%s"]}`, over, id); m.Method != mcp.NotifyAcknowledged || m.Param("notifications") != agreed {
		t.Fatalf("acknowledged %s", m.Params)
	}
	tells := func(id, status string) edgetest.Message {
		t.Helper()
		for {
			m := s.await()
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
	w.svc.Release <- struct{}{}
	m = tells(id, "completed")
	got := w.task(t, mcp.MethodTasksGet, id, "").message(t)
	for _, name := range []string{"taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "result"} {
		if m.Param(name) == "" || m.Param(name) != got.Field(name) {
			t.Errorf("%s: told %s, got %s", name, m.Param(name), got.Field(name))
		}
	}
	s.close()

	many := make([]string, 51)
	for i := range many {
		many[i] = `"x"`
	}
	r := w.post(t, modern(mcp.MethodListen, ""), edgetest.TakingTasks(listen("1", `{"taskIds":[`+strings.Join(many, ",")+`]}`)))
	r.refused(t, http.StatusRequestEntityTooLarge, mcp.CodeInvalidRequest, "too_large")
}
