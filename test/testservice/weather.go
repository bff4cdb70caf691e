package testservice

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// Schemas as the seeds have them.
const (
	forecastSchema = `{"type":"object","properties":{
		"latitude":{"type":"number","description":"Latitude of the location"},
		"longitude":{"type":"number","description":"Longitude of the location"}},
		"required":["latitude","longitude"]}`
	alertsSchema = `{"type":"object","properties":{
		"state":{"type":"string","description":"Two-letter US state code"}},"required":["state"]}`
	analysisSchema = `{"type":"object","properties":{
		"data":{"type":"string","description":"要分析的資料"},
		"analysis_type":{"type":"string","enum":["sentiment","summary","translation"],"description":"分析類型"}},
		"required":["data","analysis_type"]}`
	weatherSchema = `{"type":"object","properties":{
		"location":{"type":"string","description":"City name or zip code"}},"required":["location"]}`
	readSchema = `{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`
)

// Forecast is what get_forecast says in the seed.
const Forecast = "Tonight:\nTemperature: 45°F\nWind: 10 mph W\nForecast: Clear skies with light winds..."

// NewWeather makes the service "weather" with the tools of seeds 002, 003 and
// 004.
func NewWeather() *service.Service {
	s := service.New("weather", service.WithVersion("1.0.0"))
	said := func(text string) func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return func(context.Context, *service.Call, []byte) (*service.Result, error) {
			return &service.Result{Content: []mcp.Content{mcp.Text(text)}}, nil
		}
	}
	service.AddTool(s, service.Tool{Name: "get_forecast", Description: "Get weather forecast for a location", InputSchema: []byte(forecastSchema)}, forecast)
	service.AddTool(s, service.Tool{Name: "get_alerts", Description: "Get weather alerts for a US state", InputSchema: []byte(alertsSchema)}, said("No active alerts."))
	service.AddTool(s, service.Tool{Name: "custom_analysis", Description: "自訂分析工具", InputSchema: []byte(analysisSchema)}, said("中性"))
	service.AddTool(s, service.Tool{Name: "get_weather", Title: "Weather Information", Description: "Get current weather for a location", InputSchema: []byte(weatherSchema)},
		func(_ context.Context, call *service.Call, _ []byte) (*service.Result, error) {
			call.Progress(50, 100, "Processing...")
			return &service.Result{Content: []mcp.Content{mcp.Text("Clear.")}}, nil
		})
	service.AddTool(s, service.Tool{Name: "search", Description: "Search documents", InputSchema: []byte(`{"type":"object"}`)}, said("Nothing found."))
	service.AddTool(s, service.Tool{Name: "filesystem/read", Description: "Read contents of a file", InputSchema: []byte(readSchema)}, said("file contents here"))
	service.AddTool(s, service.Tool{Name: "broken", InputSchema: []byte(`{"type":"object"}`)},
		func(context.Context, *service.Call, []byte) (*service.Result, error) {
			return nil, errors.New("broken")
		})
	service.AddTool(s, service.Tool{Name: "slow_tool", InputSchema: []byte(`{"type":"object"}`), Timeout: ShortTimeout},
		func(ctx context.Context, _ *service.Call, _ []byte) (*service.Result, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
	return s
}

func forecast(_ context.Context, call *service.Call, raw []byte) (*service.Result, error) {
	var in struct {
		Latitude  float64 `json:"latitude"`
		Longitude float64 `json:"longitude"`
	}
	if err := json.Unmarshal(raw, &in); err != nil {
		return nil, err
	}
	call.Progress(75, 100, "")
	call.Log("info", "weather.forecast", fmt.Sprintf("Successfully fetched forecast for coordinates (%.4f, %.4f)", in.Latitude, in.Longitude))
	return &service.Result{Content: []mcp.Content{mcp.Text(Forecast)}}, nil
}

func keyOf(arguments []byte) string {
	var in struct {
		Key string `json:"key"`
	}
	_ = json.Unmarshal(arguments, &in)
	return in.Key
}
