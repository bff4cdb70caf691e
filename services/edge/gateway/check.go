package gateway

import (
	"context"
	"log/slog"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// checkResults logs where what a tool returns is not what its output schema says.
// Clients that check it throw the result away. The result is passed on as it is:
// the tool ran.
func checkResults(log *slog.Logger) Link {
	return func(ctx context.Context, c *Call, onFrame OnFrame, next Next) (*Answer, error) {
		answer, err := next(ctx, c, onFrame)
		t := c.Target.Tool
		if err != nil || t == nil || t.Output == nil || answer.Result == nil || answer.Result.IsError {
			return answer, err
		}
		var result struct {
			Structured jsontext.Value `json:"structuredContent"`
		}
		problem := "it has no structuredContent"
		switch err := json.Unmarshal(answer.Result.Json, &result); {
		case err != nil:
			problem = err.Error()
		case result.Structured != nil:
			err := t.Output.Validate(result.Structured)
			if err == nil {
				return answer, nil
			}
			problem = err.Error()
		}
		log.Warn("tool "+c.Name+" returns what its schema forbids", "service", c.Target.Service, "call", c.ID, "problem", problem)
		return answer, nil
	}
}
