package docs

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// anything stands in the page for a value that differs from run to run.
const anything = "…"

// means reports whether got is want, a value of JSON with anything in it.
func means(got, want any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for name, v := range want {
			if !means(got[name], v) {
				return false
			}
		}
		return true
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return false
		}
		for i, v := range want {
			if !means(got[i], v) {
				return false
			}
		}
		return true
	case string:
		if want == anything {
			return got != nil
		}
	}
	return reflect.DeepEqual(got, want)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal([]byte(got), &g); err != nil {
		t.Fatalf("%v: %s", err, got)
	}
	if err := json.Unmarshal([]byte(want), &w); err != nil {
		t.Fatalf("%v: %s", err, want)
	}
	if !means(g, w) {
		t.Errorf("%s\ngot  %s\nwant %s", what, got, want)
	}
}

// TestDoors runs the examples of docs/doors.md against a whole system.
func TestDoors(t *testing.T) {
	t.Parallel()
	home := build(t)
	dev := exec.Command(filepath.Join(home, "bin", "busbar"), "dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", t.TempDir())
	address := regexp.MustCompile(`mcp=(http://\S+)/mcp`).FindStringSubmatch(start(t, dev))
	if address == nil {
		t.Fatal("it does not say where it listens")
	}
	schema, err := os.ReadFile(filepath.Join(root, "services/edge/door/graphql/schema.graphql"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	var query string
	for _, b := range blocks(t, "docs/doors.md") {
		ran[b.language]++
		switch {
		case b.language == "graphql" && strings.Contains(b.text, "type Query"):
			if b.text != string(schema) {
				t.Error("the schema of the page differs from services/edge/door/graphql/schema.graphql; copy it there")
			}
		case b.language == "graphql":
			query = b.text
		case b.language == "json":
			same(t, query, post(t, address[1]+"/graphql", query), b.text)
		case b.language == "ws":
			converse(t, address[1]+"/ws", b.text)
		}
	}
	if ran["graphql"] < 3 || ran["json"] < 3 || ran["ws"] < 2 {
		t.Errorf("the page has examples no more: %v", ran)
	}
}

func post(t *testing.T, url, query string) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url, "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// converse plays a conversation.
func converse(t *testing.T, url, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	c, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	for lines := bufio.NewScanner(strings.NewReader(script)); lines.Scan(); {
		who, message, _ := strings.Cut(lines.Text(), " ")
		switch who {
		case ">":
			if err := c.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
				t.Fatal(err)
			}
		case "<":
			_, got, err := c.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "the conversation", string(got), message)
		default:
			t.Errorf("nobody says %q", lines.Text())
		}
	}
}
