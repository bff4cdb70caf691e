package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// task is a task, as tasks/get returns it.
type task struct {
	TaskID        string `json:"taskId"`
	Status        string `json:"status"`
	StatusMessage string `json:"statusMessage"`
	Result        struct {
		Structured struct {
			Value string `json:"value"`
		} `json:"structuredContent"`
	} `json:"result"`
}

// taskRequest makes a request of a client that takes tasks.
func taskRequest(t testing.TB, url, method, name, members string) (task, error) {
	t.Helper()
	body := strings.Replace(modernBody("1", method, members, ""), `clientCapabilities":{}`, `clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}`, 1)
	r, err := trySend(post(t, url, body, modernHeaders(method, name)...))
	if err != nil {
		return task{}, err
	}
	if r.message.Error != nil {
		return task{}, r.message.Error
	}
	var got task
	return got, json.Unmarshal(r.message.Result, &got)
}

// TestTaskSurvives kills the process that runs a task and the edge that began
// it, and restarts NATS: another process completes the task, and another edge
// says so.
func TestTaskSurvives(t *testing.T) {
	t.Parallel()
	nats := bustest.Start(t, bustest.Config{Synced: true})
	url := nats.URL
	edgeProcess, edge := startEdge(t, url)
	services := map[string]*process{}
	for n := range 2 {
		p := start(t, "testservice", "--nats", url)
		services[fmt.Sprintf("process %d", p.cmd.Process.Pid)] = p
		awaitInstances(t, url, "testservice", n+1)
	}
	var begun task
	eventually(t, "the task is created", func() bool {
		var err error
		begun, err = taskRequest(t, edge.mcp, "tools/call", "job", `"name":"job","arguments":{"ms":8000},`)
		return err == nil
	})
	if begun.TaskID == "" || begun.Status != "working" {
		t.Fatalf("created %+v", begun)
	}
	get := func() task {
		got, err := taskRequest(t, edge.mcp, "tasks/get", begun.TaskID, fmt.Sprintf(`"taskId":%q,`, begun.TaskID))
		if err != nil {
			return task{}
		}
		return got
	}
	var first string
	eventually(t, "a process says that it runs the task", func() bool {
		first = get().StatusMessage
		return services[first] != nil
	})
	services[first].kill()
	killed := time.Now()
	edgeProcess.kill()
	_, edge = startEdge(t, url)
	var second string
	within(t, bustest.Patience, "another process runs the task", func() bool {
		second = get().StatusMessage
		return services[second] != nil && second != first
	})
	t.Logf("another process runs it %v after the first was killed", time.Since(killed).Round(time.Millisecond))
	nats.Stop()
	nats.Restart()
	var over task
	eventually(t, "the task is over", func() bool {
		over = get()
		return over.Status != "" && over.Status != "working"
	})
	if over.Status != "completed" || over.Result.Structured.Value != second {
		t.Errorf("began in %s, went on in %s, ended as %+v", first, second, over)
	}
}
