package edge_test

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// postModern sends a modern request of a client that accepts tasks, and returns the
// answer.
func postModern(t *testing.T, h http.Handler, token, method, name, request string) string {
	t.Helper()
	return ask(t, h, http.MethodPost, "/mcp", edgetest.TakingTasks(request), "Authorization", "Bearer "+token,
		mcp.HeaderProtocolVersion, mcp.Modern, mcp.HeaderMethod, method, mcp.HeaderName, name).Body.String()
}

// A task may take as long as the policy file grants its service, and otherwise an hour:
// whatever the service says.
func TestTaskTimeIsGranted(t *testing.T) {
	t.Parallel()
	w := start(t)
	slow := service.New("slow", service.WithLogger(slog.New(slog.DiscardHandler)))
	for name, timeout := range map[string]time.Duration{"day": 20 * time.Hour, "short": time.Minute, "unsaid": 0} {
		service.AddTool(slow, service.Tool{Name: name, Task: service.TaskRequired, Timeout: timeout}, func(context.Context, *service.Call, struct{}) (string, error) { return "done", nil })
	}
	servicetest.Join(t, bustest.Connect(t, w.Bus), slow)
	g := w.govern(t, 1, everybody)
	tasks, id := task.Open(bustest.Connect(t, w.Bus)), regexp.MustCompile(`slow\.[A-Z2-7]{26}`)
	granted := func(tool string) (most time.Duration) {
		t.Helper()
		bustest.Eventually(t, "a task begins", func() bool {
			rec, err := tasks.Get(t.Context(), id.FindString(postModern(t, g.doors[0], "ada", mcp.MethodToolsCall, tool, edgetest.Call("1", tool, "{}"))))
			most = time.Duration(rec.GetTimeoutMs()) * time.Millisecond
			return err == nil
		})
		return most
	}
	for tool, want := range map[string]time.Duration{"day": time.Hour, "short": time.Minute, "unsaid": time.Hour} {
		if got := granted(tool); got != want {
			t.Errorf("without a grant a task of %s takes up to %s, want %s", tool, got, want)
		}
	}
	g.put(everybody + "services: {slow: {offers: [\"*\"], timeout: 3h}, svc: {offers: [\"*\"]}}\n")
	bustest.Eventually(t, "what is granted counts", func() bool { return granted("day") == 3*time.Hour })
	for tool, want := range map[string]time.Duration{"short": time.Minute, "unsaid": time.Hour} {
		if got := granted(tool); got != want {
			t.Errorf("with a grant a task of %s takes up to %s, want %s", tool, got, want)
		}
	}
}

// A running task ends when the policy no longer allows its tool, and when the key that it
// was begun with is revoked. Tasks of others go on.
func TestTasksEndWithTheRightToThem(t *testing.T) {
	t.Parallel()
	w, file := start(t), filepath.Join(t.TempDir(), "access.yaml")
	write(t, file, "roles: {all: {allow: ['*']}}\nprincipals: {anna: {roles: [all]}, ben: {roles: [all]}, cara: {roles: [all]}}\n")
	h, keys := w.identified(t, edge.IdentityFlags{}, file)
	tasks := task.Open(bustest.Connect(t, w.Bus))
	key := func(name, principal string) string {
		t.Helper()
		k, err := keys.Create(t.Context(), name, principal, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	id := regexp.MustCompile(`svc\.[A-Z2-7]{26}`)
	begin := func(key string) string {
		t.Helper()
		var said string
		bustest.Eventually(t, "the key is known, and a task begins", func() bool {
			said = postModern(t, h, key, mcp.MethodToolsCall, "hold-task", edgetest.Call("1", "hold-task", "{}"))
			return id.MatchString(said)
		})
		edgetest.Receive(t, "the task runs", w.Svc.Started)
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
		edgetest.Receive(t, "its handler has ended", w.Svc.Ended)
	}
	annas, bens, benToo, carasKey := key("annas", "anna"), key("bens", "ben"), key("bens too", "ben"), key("caras", "cara")
	denied, revoked, other, caras := begin(annas), begin(bens), begin(benToo), begin(carasKey)

	write(t, file, "roles: {all: {allow: ['*']}, less: {allow: ['*'], deny: [tools/hold-task]}}\nprincipals: {anna: {roles: [less]}, ben: {roles: [all]}, cara: {roles: [all]}}\n")
	ends(denied, "the policy no longer allows the tool")
	if answer := postModern(t, h, annas, mcp.MethodTasksGet, denied, edgetest.Request("2", mcp.MethodTasksGet, `"taskId":"`+denied+`"`)); !strings.Contains(answer, "no such task") {
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
	close(w.Svc.Release)
}
