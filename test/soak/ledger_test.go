package soak

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/libs/service"
)

// ledgerFile names the variable with the file that has a line for each effect.
const ledgerFile = "BUSBAR_SOAK_LEDGER"

type (
	entry struct {
		Key string `json:"key"`
		// Millis is how long the call takes, half before its effect.
		Millis int `json:"ms,omitzero"`
		Steps  int `json:"steps,omitzero"`
	}
	said struct {
		Said string `json:"said"`
	}
)

// newLedgerService makes a service that writes each effect as a line of a file, on the disk before
// the call goes on.
func newLedgerService(path string) *service.Service {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	// effect is one write, which the file's other writers do not come between.
	effect := func(tool string, call *service.Call, in entry) error {
		_, err := file.WriteString(in.Key + " " + call.ID() + " " + tool + "\n")
		return err
	}
	write := func(tool string) func(context.Context, *service.Call, entry) (said, error) {
		return func(ctx context.Context, call *service.Call, in entry) (said, error) {
			if err := pause(ctx, in.Millis/2); err != nil {
				return said{}, err
			}
			if err := effect(tool, call, in); err != nil {
				return said{}, err
			}
			return said{in.Key}, pause(ctx, in.Millis/2)
		}
	}
	s := service.New("ledger", service.WithVersion("1.0.0"))
	service.AddTool(s, service.Tool{Name: "look", ReadOnly: true}, func(_ context.Context, _ *service.Call, in entry) (said, error) {
		return said{in.Key}, nil
	})
	service.AddTool(s, service.Tool{Name: "append"}, write("append"))
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, write("approved"))
	service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, write("job"))
	service.AddTool(s, service.Tool{Name: "steps"}, func(ctx context.Context, call *service.Call, in entry) (said, error) {
		if err := effect("steps", call, in); err != nil {
			return said{}, err
		}
		for i := range in.Steps {
			if err := pause(ctx, in.Millis/in.Steps); err != nil {
				return said{}, err
			}
			call.Progress(float64(i+1), float64(in.Steps), in.Key)
		}
		return said{in.Key}, nil
	})
	return s
}

func pause(ctx context.Context, ms int) error {
	if ms == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// effects are the executions: by key, the ids of the calls.
type effects map[string][]string

// readLedger leaves out tasks, which run again when their instance dies.
func readLedger(path string) (effects, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	ran := effects{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			return nil, fmt.Errorf("the ledger has the line %q", lines.Text())
		}
		if f[2] != "job" {
			// An attempt of a call that was made again has a number behind the id.
			id, _, _ := strings.Cut(f[1], "-")
			ran[f[0]] = append(ran[f[0]], id)
		}
	}
	return ran, lines.Err()
}
