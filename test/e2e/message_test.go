package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// message is a JSON-RPC message as it came.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *rpcError       `json:"error"`

	raw []byte
}

type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    struct {
		Reason    string   `json:"reason"`
		Executed  string   `json:"executed"`
		Parameter *string  `json:"parameter"`
		Supported []string `json:"supported"`
		Requested string   `json:"requested"`
	} `json:"data"`
}

func (e *rpcError) Error() string {
	return fmt.Sprintf("%d %s (%s, executed %s)", e.Code, e.Message, e.Data.Reason, e.Data.Executed)
}

func parseMessage(raw []byte) (message, error) {
	m := message{raw: raw}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("not a JSON-RPC message: %w: %q", err, clip(raw))
	}
	if m.JSONRPC != "2.0" {
		return m, fmt.Errorf("jsonrpc is %q: %s", m.JSONRPC, clip(raw))
	}
	return m, nil
}

// text is the first text content of a tool's result.
func (m message) text() string {
	var r struct {
		Content []struct{ Type, Text string } `json:"content"`
	}
	if json.Unmarshal(m.Result, &r) != nil || len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// isError reports whether the tool itself failed.
func (m message) isError() bool {
	var r struct {
		IsError bool `json:"isError"`
	}
	return json.Unmarshal(m.Result, &r) == nil && r.IsError
}

// reply is an HTTP answer, with the messages in it.
type reply struct {
	status        int
	header        http.Header
	body          []byte
	message       message // the response; zero if it is missing
	responses     int
	notifications []message
}

var httpClient = &http.Client{
	Timeout:   40 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64},
}

// send makes a request and reads all of its answer.
func send(t testing.TB, r *http.Request) reply {
	t.Helper()
	var out reply
	eventually(t, "NATS is heard", func() bool {
		again := r.Clone(r.Context())
		if r.GetBody != nil && r.Body != nil {
			again.Body, _ = r.GetBody()
		}
		var err error
		if out, err = trySend(again); err != nil {
			t.Fatal(err)
		}
		return !bustest.StoodStill(string(out.body))
	})
	return out
}

func trySend(r *http.Request) (reply, error) { return trySendOver(httpClient, r) }

func trySendOver(client *http.Client, r *http.Request) (reply, error) {
	resp, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	out := reply{status: resp.StatusCode, header: resp.Header}
	if out.body, err = io.ReadAll(resp.Body); err != nil {
		return out, err
	}
	bodies := [][]byte{out.body}
	switch media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";"); media {
	case "application/json":
	case "text/event-stream":
		bodies = events(out.body)
	default:
		return out, nil
	}
	for _, b := range bodies {
		m, err := parseMessage(b)
		if err != nil {
			return out, err
		}
		if m.Method != "" {
			out.notifications = append(out.notifications, m)
		} else {
			out.message = m
			out.responses++
		}
	}
	return out, nil
}

// events are the data of server-sent events, but for those that only have an
// id.
func events(body []byte) [][]byte {
	var all [][]byte
	s := bufio.NewScanner(bytes.NewReader(body))
	s.Buffer(nil, 32<<20)
	for s.Scan() {
		if data, ok := bytes.CutPrefix(s.Bytes(), []byte("data: ")); ok && len(data) > 0 {
			all = append(all, bytes.Clone(data))
		}
	}
	return all
}

// header is one HTTP header; a list, because some tests send one twice.
type header struct{ name, value string }

// post builds the POST of one message. Header values replace the defaults of
// the same name; an empty one takes it away, two of a name send both.
func post(t testing.TB, url, body string, headers ...header) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	replaced := map[string]bool{}
	for _, h := range headers {
		name := http.CanonicalHeaderKey(h.name)
		if name == "Host" {
			r.Host = h.value
			continue
		}
		if !replaced[name] {
			r.Header.Del(name)
			replaced[name] = true
		}
		if h.value != "" {
			r.Header[name] = append(r.Header[name], h.value)
		}
	}
	return r
}

// sameJSON reports whether two JSON texts mean the same.
func sameJSON(t testing.TB, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("not JSON: %v: %s", err, clip(a))
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("not JSON: %v: %s", err, clip(b))
	}
	return reflect.DeepEqual(x, y)
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func clip(b []byte) string {
	if len(b) > 400 {
		return string(b[:400]) + "…"
	}
	return string(b)
}
