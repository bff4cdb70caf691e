package door_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

// TestBodyTooLarge sends bodies beyond the limit, whole and in chunks. Each client reads
// why it is refused, although it would have gone on writing.
func TestBodyTooLarge(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := door.ReadBody(w, r, limit)
		if err != nil {
			http.Error(w, string(fault.From(err).Reason), http.StatusRequestEntityTooLarge)
			return
		}
		_, _ = fmt.Fprint(w, len(body))
	}))
	t.Cleanup(srv.Close)
	for name, size := range map[string]int{"as many as there may be": limit, "one more": limit + 1, "some more": 2 << 20, "many more": 7 << 20} {
		for how, body := range map[string]func() io.Reader{
			"whole":     func() io.Reader { return bytes.NewReader(make([]byte, size)) },
			"in chunks": func() io.Reader { return io.MultiReader(bytes.NewReader(make([]byte, size))) },
		} {
			t.Run(name+", "+how, func(t *testing.T) {
				t.Parallel()
				spoilt := 0
				for range 20 {
					begun := time.Now()
					resp, err := srv.Client().Post(srv.URL, "application/json", body())
					if took := time.Since(begun); err != nil && took > time.Second && spoilt < 5 {
						spoilt++ // the server waits two seconds for a client that is still writing
						continue
					}
					if err != nil {
						t.Fatal(err)
					}
					got, err := io.ReadAll(resp.Body)
					_ = resp.Body.Close()
					want := fmt.Sprint(size)
					if size > limit {
						want = string(fault.TooLarge) + "\n"
					}
					if err != nil || string(got) != want {
						t.Fatalf("%d %q %v, want %q", resp.StatusCode, got, err, want)
					}
				}
			})
		}
	}
}

// A refusal may come after the server's own time limit for answers, for example if a call
// ran into its deadline.
func TestLateRefusal(t *testing.T) {
	t.Parallel()
	const serverTime = 50 * time.Millisecond
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(2 * serverTime) // the wait is the point of the test
		door.RefuseProblem(w, fault.New(fault.DeadlineExceeded, "too late"))
	}))
	s.Config.WriteTimeout = serverTime
	s.Start()
	t.Cleanup(s.Close)
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusGatewayTimeout || resp.Header.Get("Busbar-Reason") != string(fault.DeadlineExceeded) {
		t.Errorf("%s %v", resp.Status, resp.Header)
	}
}
