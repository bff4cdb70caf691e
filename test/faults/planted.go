package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/busbar-mcp/busbar/test/faults/history"
	"github.com/busbar-mcp/busbar/test/faults/oracle"
)

// Programs that a bug is planted in, and the parts that run them.
const (
	busbarProgram   = "services/busbar/cmd/busbar"
	ledgerProgram   = "test/faults/cmd/ledger"
	resourceProgram = "services/resource/cmd/resource"
)

var runs = map[string][]string{
	busbarProgram:   {"edge-1", "edge-2"},
	ledgerProgram:   {"ledger", "ledger-2"},
	resourceProgram: {"resource", "resource-2"},
}

// edit replaces a text that is in a file once.
type edit struct{ file, old, new string }

// planted is a bug of the product: programs are built with it, from changed copies of the sources,
// and the harness has to see it.
type planted struct {
	name    string
	program string
	edits   []edit
	calls   history.Kind
	// beside is the world in which it shows, at one edge, which has all calls then.
	beside []variant
	// kills is set to kill the instances of the ledger meanwhile.
	kills bool
	// seen are oracles of which one has to find it.
	seen []oracle.Name
}

const (
	gatewayDir  = "services/edge/gateway/"
	busDir      = "libs/bus/"
	flowDir     = "libs/bus/internal/flow/"
	auditDir    = "services/edge/audit/"
	storeDir    = "services/edge/store/"
	resourceDir = "services/resource/"
)

var bugs = []planted{
	{name: "idempotency keys are not looked at", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{gatewayDir + "deduplicate.go", "if cfg.Deduplicator == nil {", "if cfg.Deduplicator != nil {"}}},
	{name: "a key is forgotten when its call has ended", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{gatewayDir + "deduplicate.go", "case end == done:\n\t\tk.outcomes.End(after,", "case end == done:\n\t\tk.outcomes.Drop(after,"}}},
	{name: "a repeated call has another one's answer", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Answer},
		edits: []edit{{gatewayDir + "replay.go", "Json: r.Result, Meta", "Json: []byte(`{\"content\":[]}`), Meta"}}},
	{name: "a permit that was given is forgotten", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Executed, oracle.Doubled},
		edits: []edit{{flowDir + "step.go", "if e.OK {\n\t\t\ts.Phase = Permitted", "if false {\n\t\t\ts.Phase = Permitted"}}},
	{name: "what may have run is made again", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{flowDir + "again.go", "return s.End != Stalled && (unrun || s.Harmless)", "return true"}}},
	{name: "executed is no, whatever ran", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Executed},
		edits: []edit{{flowDir + "again.go", "case s.End != Refused && s.Unbegun():", "case s.Guard == Asked:"}}},
	{name: "a cancelled call runs on", program: ledgerProgram, calls: history.Impatient, seen: []oracle.Name{oracle.Late},
		edits: []edit{{busDir + "server.go", "		call.abort()\n", "		_ = call.abort\n"}}},
	{name: "a time limit is not obeyed", program: ledgerProgram, calls: history.Overdue, seen: []oracle.Name{oracle.Late},
		edits: []edit{
			{busDir + "server.go", "context.WithDeadline(s.ctx, deadline)", "context.WithDeadline(s.ctx, deadline.Add(time.Hour))"},
			{busDir + "server.go", "		call.abort()\n", "		_ = call.abort\n"},
		}},
	{name: "a copy of a request runs", program: ledgerProgram, calls: history.Write, beside: []variant{sendsTwice}, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{busDir + "server.go", "if s.live[id] != nil || !s.recent.add(id, deadline) {", "if false {"}}},
	{name: "deadlines are told by the clock of the caller", program: ledgerProgram, calls: history.Read, beside: []variant{behind}, seen: []oracle.Name{oracle.Refused},
		edits: []edit{{busDir + "server.go", "if req.RemainingNano != 0 {", "if false {"}}},
	{name: "the beginning of a call is not recorded", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Begun},
		edits: []edit{{auditDir + "audit.go", "err = t.save(ctx, auditlog.Begin, record)", "_ = record"}}},
	{name: "the end of a call is not recorded", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Ended},
		edits: []edit{{auditDir + "audit.go", "if err = t.save(ctx, auditlog.End, record); err != nil {", "if err != nil {"}}},
	{name: "the trail says that nothing ran", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Untrue},
		edits: []edit{{auditDir + "event.go", "string(r.Executed())", "string(fault.No)"}}},
	{name: "an approval is good twice", program: busbarProgram, calls: history.Approval, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{storeDir + "approvals.go", "		held, err = readHeld(id, value)\n		return nil, err", "		held, err = readHeld(id, value)\n		return value, err"}}},
	{name: "nobody is asked to agree", program: busbarProgram, calls: history.Approval, seen: []oracle.Name{oracle.Unasked},
		edits: []edit{{gatewayDir + "approve.go", "case r.approved != nil:\n				answer, err := next(ctx, r)\n				r.carryOn(answer)", "case true:\n				answer, err := next(ctx, r)"}}},
	{name: "a session is known to one edge", program: busbarProgram, calls: history.Session, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{storeDir + "sessions.go", "return s.bucket.Put(ctx, n.ID, raw)", "s.mu.Lock()\n	defer s.mu.Unlock()\n	s.cached[n.ID] = cachedSession{n, time.Now()}\n	return nil"}}},
	{name: "a task is not looked for", program: busbarProgram, calls: history.Task, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{gatewayDir + "tasks.go", "if of := rec.GetRequest().GetIdentity(); err == nil", "err = bus.ErrNoKey\n	if of := rec.GetRequest().GetIdentity(); err == nil"}}},
	{name: "a change is not told", program: resourceProgram, calls: history.Told, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{resourceDir + "relay.go", "return r.ResourcesUpdated(ctx, updates...)", "return ctx.Err()"}}},
	{name: "a write is acknowledged and not kept", program: resourceProgram, calls: history.Stored, seen: []oracle.Name{oracle.Lost},
		edits: []edit{{resourceDir + "store/table/write.go", "		n, err := tx.Exec(ctx, `INSERT INTO resource\n", "		if r.Created.UnixMicro()%2 == 0 {\n			return r, nil\n		}\n		n, err := tx.Exec(ctx, `INSERT INTO resource\n"}}},
}

// change returns the files of a bug, as they are with it.
func (p planted) change(root string) (map[string]string, error) {
	files := map[string]string{}
	for _, e := range p.edits {
		text, seen := files[e.file]
		if !seen {
			raw, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(raw)
		}
		if n := strings.Count(text, e.old); n != 1 {
			return nil, fmt.Errorf("%q: %s has the text that is replaced %d times: %q", p.name, e.file, n, e.old)
		}
		files[e.file] = strings.Replace(text, e.old, e.new, 1)
	}
	return files, nil
}
