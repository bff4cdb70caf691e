package websocket_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestMain(m *testing.M) {
	// A message of 900 KB has enough time on a busy machine too.
	door.SetTimes(6*time.Second, 20*time.Millisecond)
	leaktest.Main(m)
}

// world is an edge with a service behind it.
type world struct {
	*edgetest.World
	url string
	// keys are the valid tokens; nil asks for none.
	keys *keys
}

func start(t testing.TB, keys *keys, change ...func(*edge.Config)) *world {
	t.Helper()
	if keys != nil {
		change = append(change, edgetest.As(keys))
	}
	w := edgetest.Start(t, append(change, func(cfg *edge.Config) { cfg.Version = "1.2.3" })...)
	return &world{w, w.HTTP.URL + "/ws", keys}
}

// keys is an authenticator whose tokens may be revoked.
type keys struct{ revoked chan struct{} }

func (k *keys) Authenticate(_ context.Context, c gateway.Credentials) (gateway.Principal, error) {
	select {
	case <-k.revoked:
	default:
		if c.Bearer == "key" {
			return gateway.Principal{Name: "ada"}, nil
		}
	}
	return gateway.Principal{}, fault.New(fault.Unauthenticated, "no such token")
}

// OnEnded implements gateway.Ender.
func (k *keys) OnEnded(f func(string)) func() {
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-k.revoked:
			f("")
		case <-ended:
		}
	}()
	return func() {
		close(ended)
		<-stopped
	}
}

type socket struct {
	*edgetest.Socket
	t testing.TB
}

func (w *world) dial(t testing.TB, protocols ...string) socket {
	t.Helper()
	h := edgetest.Header{}
	if w.keys != nil {
		h["Authorization"] = "Bearer key"
	}
	return socket{edgetest.Dial(t, w.url, h, protocols...), t}
}

type message struct {
	Type  string         `json:"type"`
	ID    jsontext.Value `json:"id"`
	Data  jsontext.Value `json:"data"`
	Error *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    struct {
			Reason      string `json:"reason"`
			Executed    string `json:"executed"`
			Next        string `json:"next"`
			Approval    string `json:"approval"`
			Elicitation string `json:"elicitation"`
			Requests    map[string]struct {
				Message string `json:"message"`
			} `json:"requests"`
		} `json:"data"`
	} `json:"error"`
}

func (s socket) message() message {
	s.t.Helper()
	text := s.Next()
	var m message
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	return m
}

// refused requires an error.
func (s socket) refused(id string, code int, reason, executed string) message {
	s.t.Helper()
	m := s.message()
	if m.Type != "error" || string(m.ID) != id || m.Error == nil || m.Error.Code != code || m.Error.Data.Reason != reason || m.Error.Data.Executed != executed {
		s.t.Errorf("%s %s %s %+v, want %s for %s", m.Type, m.ID, m.Data, m.Error, reason, id)
	}
	return m
}

// release lets one call of hold return.
func (w *world) release(t testing.TB) {
	t.Helper()
	edgetest.Send(t, "release", w.Svc.Release)
}
