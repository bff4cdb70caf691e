package main

import (
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

var bugs = []planted{
	{name: "idempotency keys are not looked at", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{"keys-ignored", unless}}},
	{name: "a key is forgotten when its call has ended", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{"key-forgotten", swap("End", "Drop")}}},
	{name: "a repeated call has another one's answer", program: busbarProgram, calls: history.Keyed, seen: []oracle.Name{oracle.Answer},
		edits: []edit{{"answer-swapped", swap("r.Result", "[]byte(`{\"content\":[]}`)")}}},
	{name: "a permit that was given is forgotten", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Executed, oracle.Doubled},
		edits: []edit{{"permit-forgotten", when("false")}}},
	{name: "what may have run is made again", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{"made-again", before("return true")}}},
	{name: "executed is no, whatever ran", program: busbarProgram, calls: history.Write, kills: true, seen: []oracle.Name{oracle.Executed},
		edits: []edit{{"executed-no", when("s.Guard == Asked")}}},
	{name: "a cancelled call runs on", program: ledgerProgram, calls: history.Impatient, seen: []oracle.Name{oracle.Late},
		edits: []edit{{"cancel-ignored", skip}}},
	{name: "a time limit is not obeyed", program: ledgerProgram, calls: history.Overdue, seen: []oracle.Name{oracle.Late},
		edits: []edit{{"deadline-extended", before("deadline = deadline.Add(time.Hour)")}, {"cancel-ignored", skip}}},
	{name: "a copy of a request runs", program: ledgerProgram, calls: history.Write, beside: []variant{sendsTwice}, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{"copy-runs", when("false")}}},
	{name: "deadlines are told by the clock of the caller", program: ledgerProgram, calls: history.Read, beside: []variant{behind}, seen: []oracle.Name{oracle.Refused},
		edits: []edit{{"clock-trusted", when("false")}}},
	{name: "the beginning of a call is not recorded", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Begun},
		edits: []edit{{"beginning-unrecorded", skip}}},
	{name: "the end of a call is not recorded", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Ended},
		edits: []edit{{"end-unrecorded", skip}}},
	{name: "the trail says that nothing ran", program: busbarProgram, calls: history.Write, seen: []oracle.Name{oracle.Untrue},
		edits: []edit{{"trail-says-no", swap("r.Executed()", "fault.No")}}},
	{name: "an approval is good twice", program: busbarProgram, calls: history.Approval, seen: []oracle.Name{oracle.Doubled},
		edits: []edit{{"approval-kept", swap("nil", "value")}}},
	{name: "nobody is asked to agree", program: busbarProgram, calls: history.Approval, seen: []oracle.Name{oracle.Unasked},
		edits: []edit{{"nobody-asked", when("true")}}},
	{name: "a session is known to one edge", program: busbarProgram, calls: history.Session, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{"session-local", before("s.mu.Lock()\ndefer s.mu.Unlock()\ns.cached[n.ID] = cachedSession{n, time.Now()}\nreturn nil")}}},
	{name: "a task is not looked for", program: busbarProgram, calls: history.Task, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{"task-unknown", before("err = bus.ErrNoKey")}}},
	{name: "a change is not told", program: resourceProgram, calls: history.Told, seen: []oracle.Name{oracle.Forgotten},
		edits: []edit{{"change-untold", before("return ctx.Err()")}}},
	{name: "a write is acknowledged and not kept", program: resourceProgram, calls: history.Stored, seen: []oracle.Name{oracle.Lost},
		edits: []edit{{"write-dropped", before("if r.Created.UnixMicro()%2 == 0 {\nreturn r, nil\n}")}}},
}
