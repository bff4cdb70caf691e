package weather

import (
	"context"
	"fmt"
	"strings"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
)

// maxLocation bounds the argument, in bytes.
const maxLocation = 200

const analysis = `Analyse the weather of the coming days at this location: %q

1. Work out its latitude and longitude, and its state if it is in the United States.
2. Call get_forecast with latitude and longitude.
3. Call get_alerts with the two-letter code of the state.
4. Write, in the language of the person who asks:
   - the weather now and how it changes over the next days, with temperatures and wind;
   - each active alert that concerns the location, how severe it is and until when it lasts;
   - what to do about it: travel, clothes, work outdoors.

Take facts from the tools' answers only. If a tool fails, or the location is ambiguous, say so and do not guess.`

func (w *weather) addPrompt() {
	w.AddPrompt(mcp.Prompt{
		Name: "weather_analysis", Title: "Weather analysis", Description: "Analyse forecast and alerts for a location",
		Arguments: []mcp.PromptArgument{{Name: "location", Description: "A place, such as New York", Required: true}},
	}, func(_ context.Context, _ *service.Call, in map[string]string) ([]mcp.PromptMessage, error) {
		location := strings.TrimSpace(in["location"])
		if location == "" || len(location) > maxLocation {
			return nil, service.Errorf("location is the name of a place, of 1 to %d bytes", maxLocation)
		}
		return []mcp.PromptMessage{{Role: "user", Content: mcp.Text(fmt.Sprintf(analysis, location))}}, nil
	}, nil)
}
