package edge_test

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// A task that runs ends when the policy no longer allows its tool, and when the key that
// it was begun with is revoked; those of others go on.
func TestTasksEndWithTheRightToThem(t *testing.T) {
	t.Parallel()
	w, file := start(t), filepath.Join(t.TempDir(), "access.yaml")
	write(t, file, "roles: {all: {allow: ['*']}}\nprincipals: {anna: {roles: [all]}, ben: {roles: [all]}, cara: {roles: [all]}}\n")
	h, keys := w.identified(t, edge.IdentityFlags{}, file)
	tasks := task.Open(bustest.Connect(t, w.bus))
	key := func(name, principal string) string {
		t.Helper()
		k, err := keys.Create(t.Context(), name, principal, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	post := func(key, method, name, request string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(request))
		r.Host, r.RemoteAddr = "127.0.0.1:8000", "127.0.0.1:5000"
		for k, v := range map[string]string{
			"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + key,
			mcp.HeaderProtocolVersion: mcp.Modern, mcp.HeaderMethod: method, mcp.HeaderName: name,
		} {
			r.Header.Set(k, v)
		}
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)
		return answer
	}
	id := regexp.MustCompile(`svc\.[A-Z2-7]{26}`)
	begin := func(key string) string {
		t.Helper()
		var said string
		bustest.Eventually(t, "the key is known, and a task begins", func() bool {
			said = post(key, mcp.MethodToolsCall, "hold-task", edgetest.TakingTasks(edgetest.Call("1", "hold-task", "{}"))).Body.String()
			return id.MatchString(said)
		})
		receive(t, "the task runs", w.svc.Started)
		return id.FindString(said)
	}
	status := func(id string) (busv1.TaskStatus, string) {
		t.Helper()
		rec, err := tasks.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Status, rec.StatusMessage
	}
	ends := func(id, why string) {
		t.Helper()
		bustest.Eventually(t, "the task has ended", func() bool {
			s, said := status(id)
			return s == busv1.TaskStatus_TASK_STATUS_CANCELLED && said == why
		})
		receive(t, "its handler has ended", w.svc.Ended)
	}
	annas, bens, benToo, carasKey := key("annas", "anna"), key("bens", "ben"), key("bens too", "ben"), key("caras", "cara")
	denied, revoked, other, caras := begin(annas), begin(bens), begin(benToo), begin(carasKey)

	write(t, file, "roles: {all: {allow: ['*']}, less: {allow: ['*'], deny: [tools/hold-task]}}\nprincipals: {anna: {roles: [less]}, ben: {roles: [all]}, cara: {roles: [all]}}\n")
	ends(denied, "the policy no longer allows the tool")
	if answer := post(annas, mcp.MethodTasksGet, denied, edgetest.TakingTasks(edgetest.Request("2", mcp.MethodTasksGet, `"taskId":"`+denied+`"`))).Body.String(); !strings.Contains(answer, "no such task") {
		t.Errorf("who may not use the tool is told %s", answer)
	}

	all, err := keys.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Name == "bens" {
			if err := keys.Revoke(t.Context(), k.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	ends(revoked, "the credential that the task was begun with was revoked")
	for _, goesOn := range []string{other, caras} {
		if s, why := status(goesOn); s != busv1.TaskStatus_TASK_STATUS_WORKING {
			t.Errorf("another's task is %v: %s", s, why)
		}
	}
	close(w.svc.Release)
}
