package weather

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

const alertsInput = `{
	"type": "object",
	"properties": {"state": {"type": "string", "pattern": "^[A-Za-z]{2}$", "description": "Two-letter US state code"}},
	"required": ["state"],
	"additionalProperties": false
}`

const alertsOutput = `{
	"type": "object",
	"properties": {
		"alerts": {"type": "array", "items": {
			"type": "object",
			"properties": {
				"event": {"type": "string"},
				"headline": {"type": "string"},
				"areaDesc": {"type": "string"},
				"severity": {"type": "string"},
				"urgency": {"type": "string"},
				"ends": {"type": "string"},
				"description": {"type": "string"},
				"instruction": {"type": "string"}
			},
			"required": ["event"]
		}},
		"more": {"type": "integer", "description": "How many alerts there are besides these"}
	},
	"required": ["alerts"]
}`

// maxAlerts bounds an answer: in a hurricane there are hundreds.
const maxAlerts = 25

type alerts struct {
	Alerts []alert `json:"alerts"`
	More   int     `json:"more,omitzero"`
}

type alert struct {
	Event       string `json:"event"`
	Headline    string `json:"headline"`
	Area        string `json:"areaDesc"`
	Severity    string `json:"severity"`
	Urgency     string `json:"urgency"`
	Ends        string `json:"ends"`
	Description string `json:"description"`
	Instruction string `json:"instruction"`
}

// bound clips what a stranger wrote.
func (a *alert) bound() {
	for _, short := range []*string{&a.Event, &a.Severity, &a.Urgency, &a.Ends} {
		*short = clip(*short, 100)
	}
	a.Headline, a.Area, a.Description, a.Instruction = clip(a.Headline, 500), clip(a.Area, 1_000), clip(a.Description, 4_000), clip(a.Instruction, 2_000)
}

func (a *alert) String() string {
	text := fmt.Sprintf("%s\nArea: %s\nSeverity: %s\nDescription: %s", a.Event, a.Area, a.Severity, a.Description)
	if a.Instruction != "" {
		text += "\nInstructions: " + a.Instruction
	}
	return text
}

func (w *weather) addAlerts() {
	service.AddTool(w.Service, service.Tool{
		Name: "get_alerts", Title: "Weather alerts", Description: "Get weather alerts for a US state",
		InputSchema: []byte(alertsInput), OutputSchema: []byte(alertsOutput),
		ReadOnly: true, Idempotent: true, Annotations: mcp.ToolAnnotations{OpenWorldHint: new(true)},
		// An alert that is minutes old may be too late.
		Timeout: callTime, Cache: time.Minute, CacheShared: true,
	}, w.alerts)
}

func (w *weather) alerts(ctx context.Context, call *service.Call, in struct {
	State string `json:"state"`
}) (*service.Result, error) {
	state := strings.ToUpper(in.State)
	var found struct {
		Features []struct {
			Properties alert `json:"properties"`
		} `json:"features"`
	}
	expires, err := w.api.get(ctx, "/alerts/active/area/"+state, &found)
	if err != nil {
		return nil, w.explain(ctx, call, "get_alerts", err)
	}
	call.Expires(expires)
	shown := min(len(found.Features), maxAlerts)
	out := alerts{Alerts: make([]alert, shown), More: len(found.Features) - shown}
	texts := make([]string, shown)
	for i := range out.Alerts {
		a := found.Features[i].Properties
		a.bound()
		out.Alerts[i], texts[i] = a, a.String()
	}
	text := strings.Join(texts, "\n---\n")
	switch {
	case shown == 0:
		text = "No active alerts for " + state + "."
	case out.More > 0:
		text += fmt.Sprintf("\n---\n… and %d more", out.More)
	}
	call.Log("info", "weather.alerts", fmt.Sprintf("Successfully fetched %d alerts for %s", len(found.Features), state))
	w.note("get_alerts: %d alerts", len(found.Features))
	return &service.Result{Content: []mcp.Content{mcp.Text(text)}, Structured: out}, nil
}
