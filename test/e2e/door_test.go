package e2e

import (
	"encoding/json"
	"net/http"
	"testing"
)

// door sends messages as they are written and returns what comes back.
type door interface {
	// send returns the response to a request, with the notifications before it;
	// zero for a notification.
	send(t *testing.T, body string) (message, []message)
}

// httpDoor is Streamable HTTP as a legacy client uses it: it names the session
// and the version once it has them.
type httpDoor struct {
	url, session, version string
}

func (d *httpDoor) send(t *testing.T, body string) (message, []message) {
	t.Helper()
	var headers []header
	if d.session != "" {
		headers = []header{{"Mcp-Session-Id", d.session}, {"MCP-Protocol-Version", d.version}}
	}
	r := send(t, post(t, d.url, body, headers...))
	if id := r.header.Get("Mcp-Session-Id"); id != "" {
		var result struct{ ProtocolVersion string }
		if err := json.Unmarshal(r.message.Result, &result); err != nil {
			t.Fatal(err)
		}
		d.session, d.version = id, result.ProtocolVersion
	}
	if idOf(body) == "" {
		if r.status != http.StatusAccepted || len(r.body) > 0 {
			t.Errorf("a notification was answered with %d %q", r.status, r.body)
		}
		return message{}, nil
	}
	return r.message, r.notifications
}

// pipeDoor is stdio.
type pipeDoor struct{ *pipe }

func (d pipeDoor) send(t *testing.T, body string) (message, []message) {
	t.Helper()
	d.kept = nil
	d.write(oneLine(t, body))
	id := idOf(body)
	if id == "" {
		return message{}, nil
	}
	m := d.await("the answer to "+id, response(id))
	notes := d.kept
	d.kept = nil
	return m, notes
}

// idOf is the id of a message as written, empty if it has none.
func idOf(body string) string {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal([]byte(body), &m)
	return string(m.ID)
}

// oneLine takes the line ends out of a message that people wrote.
func oneLine(t *testing.T, body string) string {
	t.Helper()
	b, err := json.Marshal(json.RawMessage(body))
	if err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return string(b)
}
