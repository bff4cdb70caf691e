package weather

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

const forecastInput = `{
	"type": "object",
	"properties": {
		"latitude": {"type": "number", "minimum": -90, "maximum": 90, "description": "Latitude of the location"},
		"longitude": {"type": "number", "minimum": -180, "maximum": 180, "description": "Longitude of the location"}
	},
	"required": ["latitude", "longitude"],
	"additionalProperties": false
}`

const forecastOutput = `{
	"type": "object",
	"properties": {"periods": {"type": "array", "items": {
		"type": "object",
		"properties": {
			"name": {"type": "string", "description": "Such as Tonight or Monday"},
			"startTime": {"type": "string"},
			"temperature": {"type": ["number", "null"]},
			"temperatureUnit": {"type": "string"},
			"windSpeed": {"type": "string"},
			"windDirection": {"type": "string"},
			"shortForecast": {"type": "string"},
			"detailedForecast": {"type": "string"}
		},
		"required": ["name"]
	}}},
	"required": ["periods"]
}`

// maxPeriods bounds a forecast: half a day each, a week.
const maxPeriods = 14

type place struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// point is a place as the interface has it: four decimals at most, no zeros at the
// end.
func (p place) point() string {
	decimals := func(v float64) string { return strconv.FormatFloat(math.Round(v*1e4)/1e4+0, 'f', -1, 64) }
	return decimals(p.Latitude) + "," + decimals(p.Longitude)
}

type forecast struct {
	Periods []period `json:"periods"`
}

type period struct {
	Name             string   `json:"name"`
	StartTime        string   `json:"startTime"`
	Temperature      *float64 `json:"temperature"`
	TemperatureUnit  string   `json:"temperatureUnit"`
	WindSpeed        string   `json:"windSpeed"`
	WindDirection    string   `json:"windDirection"`
	ShortForecast    string   `json:"shortForecast"`
	DetailedForecast string   `json:"detailedForecast"`
}

// bound clips what a stranger wrote.
func (p *period) bound() {
	for _, short := range []*string{&p.Name, &p.StartTime, &p.TemperatureUnit, &p.WindSpeed, &p.WindDirection} {
		*short = clip(*short, 100)
	}
	p.ShortForecast, p.DetailedForecast = clip(p.ShortForecast, 500), clip(p.DetailedForecast, 2_000)
}

func (p *period) String() string {
	temperature := "unknown"
	if p.Temperature != nil {
		temperature = strconv.FormatFloat(*p.Temperature, 'f', -1, 64) + "°" + p.TemperatureUnit
	}
	return fmt.Sprintf("%s:\nTemperature: %s\nWind: %s %s\nForecast: %s", p.Name, temperature, p.WindSpeed, p.WindDirection, p.DetailedForecast)
}

func (w *weather) addForecast() {
	service.AddTool(w.Service, service.Tool{
		Name: "get_forecast", Title: "Weather forecast", Description: "Get weather forecast for a location",
		InputSchema: []byte(forecastInput), OutputSchema: []byte(forecastOutput),
		ReadOnly: true, Idempotent: true, Annotations: mcp.ToolAnnotations{OpenWorldHint: new(true)},
		Timeout: callTime, Cache: time.Hour, CacheShared: true,
	}, w.forecast)
}

func (w *weather) forecast(ctx context.Context, call *service.Call, at place) (*service.Result, error) {
	call.Progress(25, 100, "Looking for the office in charge")
	path, err := w.api.office(ctx, at.point())
	if err != nil {
		return nil, w.explain(ctx, call, "get_forecast", err)
	}
	call.Progress(50, 100, "Asking it for the forecast")
	var found struct {
		Properties forecast `json:"properties"`
	}
	expires, err := w.api.get(ctx, path, &found)
	if err != nil {
		return nil, w.explain(ctx, call, "get_forecast", err)
	}
	call.Progress(75, 100, "Writing it down")
	call.Expires(expires)
	f := found.Properties
	f.Periods = f.Periods[:min(len(f.Periods), maxPeriods)]
	if len(f.Periods) == 0 {
		return nil, w.explain(ctx, call, "get_forecast", errStrange)
	}
	texts := make([]string, len(f.Periods))
	for i := range f.Periods {
		f.Periods[i].bound()
		texts[i] = f.Periods[i].String()
	}
	call.Log("info", "weather.forecast", fmt.Sprintf("Successfully fetched forecast for coordinates (%.4f, %.4f)", at.Latitude, at.Longitude))
	// Where somebody looked is theirs: everybody may read these lines.
	w.note("get_forecast: %d periods", len(texts))
	call.Progress(100, 100, "Done")
	return &service.Result{Content: []mcp.Content{mcp.Text(strings.Join(texts, "\n---\n"))}, Structured: f}, nil
}
