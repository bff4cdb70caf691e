package weather

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/fetch"
)

// limits of requests. With the pauses between them three attempts take less than
// callTime.
var limits = fetch.Limits{
	Call: callTime, Margin: time.Second, Attempt: 2500 * time.Millisecond, Attempts: 3, Backoff: 300 * time.Millisecond,
	Body: 2 << 20, Failures: 5, Open: 15 * time.Second, Patience: 2 * time.Second, LongestWait: time.Hour,
}

// Bounds in bytes: of a header, of all documents that are kept, of one of them.
const header, kept, keptEach = 64 << 10, 16 << 20, 1 << 20

// noaa reads the interface of the National Weather Service.
type noaa struct {
	base   string
	reader *fetch.Reader
}

func newNOAA(env Env) (*noaa, error) {
	base := strings.TrimSuffix(cmp.Or(env.URL, DefaultURL), "/")
	if u, err := url.Parse(base); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, errors.New("BUSBAR_WEATHER_URL is not a URL such as " + DefaultURL)
	}
	transport := env.Transport
	if transport == nil {
		transport = fetch.Transport(header)
	}
	return &noaa{base, fetch.NewReader(fetch.New(transport, limits), http.Header{
		// It asks its callers to say who they are.
		"User-Agent": {"busbar-weather/" + cmp.Or(env.Version, "dev") + " (https://github.com/busbar-mcp/busbar)"},
		"Accept":     {"application/geo+json"},
	}, kept, keptEach)}, nil
}

// refused is an answer that says no.
type refused struct {
	status int
	detail string
}

func (r *refused) Error() string { return "refused: " + r.detail }

// errStrange is an answer of another shape than the one asked for.
var errStrange = errors.New("an answer of another shape")

// get reads a document, and says until when it is fresh.
func (n *noaa) get(ctx context.Context, path string, into any) (expires time.Time, err error) {
	a, expires, err := n.reader.Get(ctx, n.base+path)
	if err != nil {
		return expires, err
	}
	if a.Status != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		_ = json.Unmarshal(a.Body, &problem)
		return expires, &refused{a.Status, clip(problem.Detail, 300)}
	}
	if json.Unmarshal(a.Body, into) != nil {
		return expires, errStrange
	}
	return expires, nil
}

// gridForecast is where a forecast is. The host in front of it is not looked at:
// requests go to the base, wherever an answer points to.
var gridForecast = regexp.MustCompile(`/gridpoints/[A-Z]{2,8}/-?\d{1,4},-?\d{1,4}/forecast$`)

// office finds the path of the forecast for a point.
func (n *noaa) office(ctx context.Context, point string) (path string, err error) {
	var found struct {
		Properties struct {
			Forecast string `json:"forecast"`
		} `json:"properties"`
	}
	if _, err := n.get(ctx, "/points/"+point, &found); err != nil {
		return "", err
	}
	if path = gridForecast.FindString(found.Properties.Forecast); path == "" {
		return "", errStrange
	}
	return path, nil
}
