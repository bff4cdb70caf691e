// Package weather is a Busbar service with forecasts and alerts of the United States' National
// Weather Service. It shows how a service asks a public web API: noaa.go makes the requests,
// forecast.go and alerts.go are its tools. "busbar dev" runs it, too.
package weather

import (
	"context"
	"net/http"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
)

// DefaultURL is the public interface of the National Weather Service.
const DefaultURL = "https://api.weather.gov"

// Env says where the forecasts come from.
type Env struct {
	service.Env
	// URL is the base of the interface; empty is DefaultURL.
	URL string `name:"url" env:"BUSBAR_WEATHER_URL" placeholder:"URL" help:"Base of the National Weather Service's interface. Default https://api.weather.gov."`
	// Transport makes the requests; nil is one that knows the environment's proxies.
	Transport http.RoundTripper `kong:"-"`
}

// callTime is the longest a call takes: a place that is out of reach is an answer
// after it, too.
const callTime = 10 * time.Second

type weather struct {
	*service.Service
	api  *noaa
	logs logbook
}

// New makes the service "weather".
func New(_ context.Context, env Env) (*service.Service, error) {
	api, err := newNOAA(env)
	if err != nil {
		return nil, err
	}
	w := &weather{api: api, Service: service.New("weather", service.WithVersion(env.Version), service.WithLogger(env.Log),
		service.WithDescription("Forecasts and alerts of the National Weather Service"))}
	w.addForecast()
	w.addAlerts()
	w.addLogs()
	w.addPrompt()
	w.note("Weather service started")
	return w.Service, nil
}
