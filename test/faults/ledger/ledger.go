// Package ledger is a service that counts its effects independently of Busbar: each execution is a
// line in a file, on the disk before its call is answered.
package ledger

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/service"
)

// Run is one execution.
type Run struct {
	// ID is this execution's own; its caller is told.
	ID string `json:"run"`
	// Key names the effect, and was made up by the client.
	Key  string `json:"key"`
	Call string `json:"call"`
	Tool string `json:"tool"`
	// Began is when the handler began, At when the effect was there.
	Began time.Time `json:"began"`
	At    time.Time `json:"at"`
}

// Hasty is the time limit of the tool "hasty".
const Hasty = time.Second

type (
	entry struct {
		Key string `json:"key"`
		// Millis is how long the call takes, half of it before its effect.
		Millis int `json:"ms,omitzero"`
		// Steps is how often the tool "steps" tells of its progress, after its effect.
		Steps int `json:"steps,omitzero"`
	}
	// Said is the answer: it names the execution.
	Said struct {
		Key string `json:"key"`
		Run string `json:"run"`
	}
)

// New makes the service, with its file.
func New(file string) (*service.Service, error) {
	out, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		return nil, err
	}
	// effect is one write, so lines of other instances do not come between.
	effect := func(tool string, call *service.Call, in entry, began time.Time) (run string, err error) {
		r := Run{ID: rand.Text(), Key: in.Key, Call: call.ID(), Tool: tool, Began: began, At: time.Now()}
		line, err := json.Marshal(r)
		if err == nil {
			_, err = out.Write(append(line, '\n'))
		}
		return r.ID, err
	}
	write := func(tool string) func(context.Context, *service.Call, entry) (Said, error) {
		return func(ctx context.Context, call *service.Call, in entry) (Said, error) {
			began := time.Now()
			if err := pause(ctx, in.Millis/2); err != nil {
				return Said{}, err
			}
			r, err := effect(tool, call, in, began)
			if err != nil {
				return Said{}, err
			}
			// An effect that has happened is answered, even to a caller that has gone.
			_ = pause(ctx, in.Millis/2)
			return Said{in.Key, r}, nil
		}
	}
	s := service.New("ledger", service.WithVersion("1.0.0"))
	s.OnStop(func() { _ = out.Close() })
	service.AddTool(s, service.Tool{Name: "look", ReadOnly: true}, func(ctx context.Context, _ *service.Call, in entry) (Said, error) {
		return Said{Key: in.Key}, pause(ctx, in.Millis)
	})
	service.AddTool(s, service.Tool{Name: "append"}, write("append"))
	service.AddTool(s, service.Tool{Name: "approved", RequiresUserApproval: true}, write("approved"))
	service.AddTool(s, service.Tool{Name: "hasty", Timeout: Hasty}, write("hasty"))
	service.AddTool(s, service.Tool{Name: "steps"}, func(ctx context.Context, call *service.Call, in entry) (Said, error) {
		run, err := effect("steps", call, in, time.Now())
		for i := range in.Steps {
			if err == nil {
				err = pause(ctx, in.Millis/in.Steps)
			}
			if err == nil {
				call.Progress(float64(i+1), float64(in.Steps), in.Key)
			}
		}
		return Said{in.Key, run}, err
	})
	service.AddTool(s, service.Tool{Name: "job", Task: service.TaskRequired}, write("job"))
	return s, nil
}

func pause(ctx context.Context, ms int) error {
	select {
	case <-time.After(time.Duration(ms) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Read reads all executions; before the first there is no file.
func Read(file string) ([]Run, error) {
	in, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	var all []Run
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r Run
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("the ledger has the line %q: %w", lines.Text(), err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}
