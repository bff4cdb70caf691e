package edge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/probe"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// checks are the checks of /readyz.
func (e *Edge) checks() []probe.Check {
	all := []probe.Check{{Name: "bus", Look: e.busReady}, {Name: "clock", Look: e.clockReady}}
	if e.trail != nil {
		all = append(all, probe.Check{Name: "audit", Look: e.auditReady})
	}
	if e.tls != nil {
		all = append(all, probe.Check{Name: "tls", Look: e.tls.Status})
	}
	if e.policy() != nil {
		all = append(all, probe.Check{Name: "access", Look: e.policyReady})
	}
	return append(all, probe.Check{Name: "requests", Look: e.leaving.look})
}

func (e *Edge) busReady() (string, error) {
	if !e.conn.Connected() {
		return "", errors.New("the bus is not reachable")
	}
	if away := e.storage.Away(); len(away) > 0 {
		return "connected; without " + strings.Join(away, ", ") + ", which do not answer", nil
	}
	return "connected", nil
}

// clockReady says how far the clock of this machine is off. It is only information: calls
// do not depend on it.
func (e *Edge) clockReady() (string, error) {
	if off, _ := e.live.ClockOffset(); off.Abs() > registry.MaxClockOffset {
		return fmt.Sprintf("the clock of this edge is off by %.0f s against most of the bus: set it", off.Seconds()), nil
	}
	return "in step with the bus", nil
}

// unread is the advice for a trail that nobody reads.
const unread = "no audit service runs on this bus, so the audit trail only grows: start \"busbar audit serve\" before the stream is full, when calls with effects are refused"

func (e *Edge) auditReady() (string, error) {
	line, err := e.trail.Status()
	switch {
	case err != nil && !e.audited():
		return "", fmt.Errorf("%w; no audit service runs on this bus: start \"busbar audit serve\"", err)
	case err != nil:
		return "", err
	case !e.audited():
		return line + "; " + unread, nil
	}
	if why := e.unwritten.Load(); why != nil {
		line += "; the audit service writes nothing: " + *why
	}
	return line + e.putAside(), nil
}

// putAside says how many events could not be written, as of this edge's last maintenance
// of the stores; empty for none.
func (e *Edge) putAside() string {
	const dead = "stream DLQ"
	for _, s := range e.storage.Sizes() {
		if s.Name == dead && s.Messages > 0 {
			return fmt.Sprintf("; %d events could not be written and are in %s, %d of %d KiB: run \"busbar audit redeliver\"", s.Messages, dead, (s.Bytes+1023)>>10, s.Limit>>10)
		}
	}
	return ""
}

// askEvery is how often the edge asks the audit service whether it writes, and askTime
// the time limit of the question.
const askEvery, askTime = 5 * time.Second, time.Second

// askAudit keeps asking until stop is called, so that /readyz, which asks nobody, has the
// answer.
func (e *Edge) askAudit() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(askEvery)
		defer tick.Stop()
		for {
			e.unwritten.Store(e.auditWord(ctx))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

// auditWord is why the audit service writes nothing; nil if it writes, or does not say.
func (e *Edge) auditWord(ctx context.Context) *string {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if !e.audited() {
		return nil
	}
	answer, err := e.caller.Call(ctx, gateway.AuditService, &busv1.Request{Method: gateway.AuditQuery, Name: "state"}, nil)
	var state struct {
		Stopped string `json:"stopped"`
	}
	if err != nil || json.Unmarshal(answer.GetResult().GetJson(), &state) != nil || state.Stopped == "" {
		return nil
	}
	why := fault.Clip(state.Stopped)
	return &why
}

// audited reports whether a service reads the trail.
func (e *Edge) audited() bool {
	return slices.ContainsFunc(e.live.Services(), func(s registry.Service) bool { return s.Name == gateway.AuditService })
}

// Warnings are facts about the bus that whoever starts an edge should know.
func (e *Edge) Warnings() []string {
	if e.trail != nil && !e.audited() {
		return []string{unread}
	}
	return nil
}
