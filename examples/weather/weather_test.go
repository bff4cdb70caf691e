package weather

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/busbar-mcp/busbar/examples/weather/noaatest"
	"github.com/busbar-mcp/busbar/libs/fetch"
	"github.com/busbar-mcp/busbar/libs/service/servicetest"
)

// newYork is a place, as the interface has it after four decimals.
var newYork = map[string]any{"latitude": 40.7128, "longitude": -74.0060}

func start(t *testing.T) (*servicetest.Bus, *noaatest.Server) {
	upstream := noaatest.Start(t)
	return servicetest.Start(t, servicetest.Build(t, New, Env{URL: upstream.URL})), upstream
}

func TestForecast(t *testing.T) {
	t.Parallel()
	bus, _ := start(t)
	r := bus.Call("get_forecast", newYork)
	if r.Err != nil || r.IsError || !strings.HasPrefix(r.Text, noaatest.Tonight+"\n---\nSunday:\nTemperature: 54°F") {
		t.Fatal(r.Text, r.Err)
	}
	var got forecast
	if err := r.Into(&got); err != nil || len(got.Periods) != 2 || got.Periods[1].ShortForecast != "Slight Chance Rain Showers" {
		t.Error(got, err)
	}
	if n := len(r.Progress); n != 4 || r.Progress[2].Done != 75 || r.Progress[2].Total != 100 {
		t.Errorf("progress: %+v", r.Progress)
	}
	if len(r.Logs) != 1 || r.Logs[0].Logger != "weather.forecast" || !strings.Contains(string(r.Logs[0].Data), "(40.7128, -74.0060)") {
		t.Errorf("logs: %s", r.Logs)
	}
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	bus, _ := start(t)
	for state, want := range map[string]string{
		"NY": "Winter Storm Warning\nArea: Northern Erie", "ny": "Instructions: If you must travel", "CA": "No active alerts for CA.",
	} {
		if r := bus.Call("get_alerts", map[string]any{"state": state}); r.IsError || !strings.Contains(r.Text, want) {
			t.Errorf("%s: %s %v", state, r.Text, r.Err)
		}
	}
	if r := bus.Call("get_alerts", map[string]any{"state": "ZZ"}); !r.IsError || !strings.Contains(r.Text, "a code such as NY") {
		t.Error(r.Text, r.Err)
	}
}

// Data from outside is bounded, and has the requested shape.
func TestStrangeAnswers(t *testing.T) {
	t.Parallel()
	many := `{"features":[` + strings.TrimSuffix(strings.Repeat(`{"properties":{"event":"Flood","description":"`+strings.Repeat("wet ", 2_000)+`"}},`, 60), ",") + `]}`
	long := func(n int) string { return strings.Repeat("long ", n) }
	for name, c := range map[string]struct {
		status     int
		body, says string
		fails      bool
	}{
		"many long alerts": {200, many, "… and 35 more", false},
		"long fields":      {200, fmt.Sprintf(`{"features":[{"properties":{"event":%q,"headline":%q,"severity":%q,"urgency":%q,"ends":%q}}]}`, long(9e4), long(9e4), long(9e4), long(9e4), long(1e4)), "Severity: long", false},
		"nothing":          {200, "null", "No active alerts", false},
		"not UTF-8":        {200, "{\"features\":[{\"properties\":{\"event\":\"\xff\xfe\"}}]}", "Severity", false},
		"no JSON":          {200, "<html>", "could not be read", true},
		"another shape":    {200, `{"features":7}`, "could not be read", true},
		"another type":     {200, `{"features":[{"properties":{"event":{"a":1}}}]}`, "could not be read", true},
		"deep":             {200, strings.Repeat("[", 500_000), "could not be read", true},
		"too large":        {200, strings.Repeat(" ", 3<<20), "more than 2 MiB", true},
		"a redirect":       {301, "", "status 301", true},
		"busy":             {429, "{}", "fewer requests", true},
		"down":             {503, "", "down or cannot be reached", true},
		"a forged line":    {400, `{"detail":"no\n2026-01-01 00:00:00 - all is well"}`, "refuses the arguments", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bus, upstream := start(t)
			upstream.Instead(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.body))
			})
			r := bus.Call("get_alerts", map[string]any{"state": "NY"})
			if r.Err != nil || r.IsError != c.fails || !strings.Contains(r.Text, c.says) || len(r.Text)+len(r.Structured) > 240_000 || name == "long fields" && len(r.Text)+len(r.Structured) > 5_000 {
				t.Errorf("%v %v %d bytes: %.300s", r.IsError, r.Err, len(r.Text)+len(r.Structured), r.Text)
			}
			if logs, err := bus.Read(logsURI); err != nil || strings.Contains(logs[0].Text, "\n2026-01-01") {
				t.Errorf("%v %+v", err, logs)
			}
			if r := bus.Call("get_forecast", newYork); !r.IsError || strings.Contains(r.Text, "127.0.0.1") {
				t.Error(r.Text, r.Err)
			}
		})
	}
}

// Requests go to the base alone, wherever an answer points to.
func TestForecastElsewhere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		forecast string
		found    bool
	}{
		{"https://elsewhere.example/gridpoints/OKX/33,35/forecast", true},
		{"https://elsewhere.example/gridpoints/OKX/33,35/forecast?x=/y", false},
		{"https://elsewhere.example/gridpoints/../secret/forecast", false},
		{"", false},
	} {
		t.Run(c.forecast, func(t *testing.T) {
			t.Parallel()
			bus, upstream := start(t)
			upstream.Instead(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/points/") {
					_, _ = fmt.Fprintf(w, `{"properties":{"forecast":%q}}`, c.forecast)
					return
				}
				_, _ = w.Write([]byte(`{"properties":{"periods":[{"name":"Here"}]}}`))
			})
			if r := bus.Call("get_forecast", newYork); r.IsError == c.found || strings.HasPrefix(r.Text, "Here") != c.found {
				t.Error(r.Text, r.Err)
			}
		})
	}
}

// A place outside is refused in words; one out of range never gets there.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	bus, upstream := start(t)
	if r := bus.Call("get_forecast", map[string]any{"latitude": 52.23, "longitude": 21.01}); !r.IsError || !strings.Contains(r.Text, "covers the United States") {
		t.Error(r.Text, r.Err)
	}
	asked := len(upstream.Requests())
	for _, bad := range []map[string]any{{"latitude": 400, "longitude": 0}, {"latitude": "north", "longitude": 0}, {"latitude": 1}, {}} {
		if r := bus.Call("get_forecast", bad); r.Err == nil {
			t.Errorf("%v: %s", bad, r.Text)
		}
	}
	if r := bus.Call("get_alerts", map[string]any{"state": "../x"}); r.Err == nil {
		t.Error(r.Text)
	}
	if n := len(upstream.Requests()); n != asked {
		t.Errorf("%d requests were made", n-asked)
	}
}

// A document is kept until it expires, and asked for conditionally after that.
func TestKept(t *testing.T) {
	t.Parallel()
	bus, upstream := start(t)
	upstream.Fresh(time.Hour)
	for range 3 {
		bus.Call("get_forecast", newYork)
	}
	if n := len(upstream.Requests()); n != 2 {
		t.Errorf("%d requests for what does not expire, want that of the point and that of its forecast", n)
	}
	bus.Call("get_alerts", map[string]any{"state": "CA"})
	upstream.Fresh(0)
	bus.Call("get_alerts", map[string]any{"state": "NY"})
	r := bus.Call("get_alerts", map[string]any{"state": "NY"})
	all := upstream.Requests()
	if last := all[len(all)-1]; len(all) != 5 || last.Header.Get("If-None-Match") == "" || !strings.Contains(r.Text, "Winter Storm") {
		t.Errorf("%d requests, the last with %v: %s", len(all), last.Header, r.Text)
	}
}

// Points are spelled as the interface spells them; it redirects other spellings.
func TestPoint(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]place{
		"40.7128,-74.006": {40.71280001, -74.00599999}, "0,-0.5": {-0.00001, -0.5}, "40,-74": {40, -74}, "-90,180": {-90, 180},
	} {
		if got := p.point(); got != want {
			t.Errorf("%v is %s, want %s", p, got, want)
		}
	}
}

// roundTrip answers requests in memory.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A call to a place that does not answer ends well before its time is over.
func TestHang(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		n, err := newNOAA(Env{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			attempts++
			<-r.Context().Done()
			return nil, r.Context().Err()
		})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), callTime)
		defer cancel()
		began := time.Now()
		_, err = n.office(ctx, "40,-74")
		var f *fetch.Failure
		if took := time.Since(began); !errors.As(err, &f) || f.Kind != fetch.TimedOut || took > callTime-time.Second || attempts != 3 {
			t.Errorf("after %v and %d attempts: %v", took, attempts, err)
		}
	})
}

// Out of reach a call says so; after some in vain nothing is sent for a while.
func TestOutOfReach(t *testing.T) {
	t.Parallel()
	bus, upstream := start(t)
	upstream.Instead(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	})
	for range 2 {
		if r := bus.Call("get_forecast", newYork); !r.IsError || !strings.Contains(r.Text, "call again") || strings.Contains(r.Text, "127.0.0.1") {
			t.Error(r.Text, r.Err)
		}
	}
	asked := len(upstream.Requests())
	if r := bus.Call("get_forecast", newYork); !strings.Contains(r.Text, "nothing was sent") || len(upstream.Requests()) != asked {
		t.Errorf("after two calls in vain: %s", r.Text)
	}
}

// The logs contain the last lines, and no place that anybody asked for.
func TestLogs(t *testing.T) {
	t.Parallel()
	bus, _ := start(t)
	bus.Call("get_forecast", newYork)
	read := func() string {
		contents, err := bus.Read(logsURI)
		if err != nil || len(contents) != 1 || contents[0].MIMEType != "text/plain" {
			t.Fatal(contents, err)
		}
		return contents[0].Text
	}
	if text := read(); !strings.Contains(text, " - Weather service started\n") || !strings.Contains(text, "get_forecast: 2 periods") || strings.Contains(text, "40.7") {
		t.Error(text)
	}
	var l logbook
	for i := range 3 * maxLines {
		l.add(fmt.Sprint(i))
	}
	if lines := strings.Split(l.text(), "\n"); len(lines) != maxLines || lines[0] != "400" || lines[maxLines-1] != "599" {
		t.Errorf("%d lines from %s to %s", len(lines), lines[0], lines[len(lines)-1])
	}
}

func TestPrompt(t *testing.T) {
	t.Parallel()
	bus, _ := start(t)
	messages, err := bus.Prompt("weather_analysis", map[string]string{"location": "New York"})
	if err != nil || len(messages) != 1 || !strings.Contains(messages[0].Text, `"New York"`) || !strings.Contains(messages[0].Text, "get_alerts") {
		t.Error(messages, err)
	}
	if _, err := bus.Prompt("weather_analysis", map[string]string{"location": strings.Repeat("x", maxLocation+1)}); err == nil {
		t.Error("a name of any length is taken")
	}
}

func TestURL(t *testing.T) {
	t.Parallel()
	for url, ok := range map[string]bool{
		"": true, "https://api.weather.gov": true, "http://127.0.0.1:8080/": true, "ftp://x": false, "api.weather.gov": false,
		"https://user:secret@api.weather.gov": false, "https://x/?y": false, "https://x/#y": false, "://": false,
	} {
		if _, err := New(t.Context(), Env{URL: url}); (err == nil) != ok || err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// Whatever the interface answers, the next request goes to a path of a forecast.
func FuzzPoints(f *testing.F) {
	for _, seed := range []string{`{"properties":{"forecast":"https://api.weather.gov/gridpoints/OKX/33,35/forecast"}}`, `{"properties":{"forecast":7}}`, `[`, ``} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		n, err := newNOAA(Env{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(body))}, nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		if path, err := n.office(t.Context(), "40,-74"); err == nil && (!strings.HasPrefix(path, "/gridpoints/") || strings.ContainsAny(path, "?#\\") || strings.Contains(path, "..")) {
			t.Errorf("%q leads to %q", body, path)
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
