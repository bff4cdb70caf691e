package budget

// Prefixes of names of functions.
const (
	ours   = "github.com/busbar-mcp/busbar/" // left out of the names of ours
	client = "github.com/nats-io/nats%2ego."
	server = "github.com/nats-io/nats-server/v2/server."
)

// Stage is a part of the way of a call.
type Stage struct {
	Name string
	// Functions are prefixes of the names of its functions. The longest counts.
	Functions []string
}

// Stages are in the order in which a call passes them, and then what goes on beside it.
// docs/evidence/performance.md says of each why it is there.
var Stages = []Stage{
	{"read HTTP", []string{
		"net/http.(*conn).", "net/http.(*connReader).", "net/http.(*Server).", "net/http.readRequest", "net/http.newBufio", "services/edge.(*framedConn).", "services/edge/door.ReadBody", "main.readBody",
	}},
	{"routes and headers", []string{
		"net/http.serverHandler.", "net/http.(*ServeMux).", "services/edge.", "services/edge/door.", "services/edge/door/streamable.", "services/edge/identity.", "main.floorEdge.func",
	}},
	{"parse", []string{"libs/mcp."}},
	{"version of MCP, splice", []string{"services/edge/protocol."}},
	{"chain", []string{"services/edge/gateway.", "services/edge/budget."}},
	{"link authenticate", []string{"services/edge/gateway.authenticate.", "services/edge/gateway.(*run).authenticate", "services/edge/gateway.(*Gateway).Authenticate"}},
	{"link find", []string{"services/edge/gateway.find.", "services/edge/catalogue."}},
	{"link limit", []string{"services/edge/gateway.limit.", "services/edge/gateway.(*Gateway).Admit", "services/edge/limit."}},
	{"link authorize", []string{"services/edge/gateway.authorize.", "services/edge/access."}},
	{"link validate", []string{"services/edge/gateway.validate.", "services/edge/gateway.fitting", "services/edge/gateway.misfit"}},
	{"links state, check", []string{"services/edge/gateway.state.", "services/edge/gateway.check."}},
	{"link dispatch", []string{"services/edge/gateway.dispatch.", "services/edge/gateway.(*run).request"}},
	{"request: marshal, seal", []string{"libs/bus.(*attempt).send", "libs/bus.(*sealer).seal", "libs/bus.(*sealer).sum", "libs/bus.sent"}},
	{"request: instance, deadline, answer", []string{"libs/bus.", "libs/bus/edges.", "libs/bus/internal/flow.", "libs/bus/internal/wire.", "libs/tracing."}},
	{"NATS client: publish", []string{client, "main.subscribe.func"}},
	{"NATS client: flush", []string{client + "(*Conn).flusher", client + "(*natsWriter).", client + "(*timeoutWriter)."}},
	{"NATS client: read", []string{client + "(*Conn).readLoop", client + "(*Conn).parse", client + "(*Conn).processMsg", client + "(*Conn).waitForMsgs", client + "(*natsReader)."}},
	{"NATS server", []string{server}},
	{"service: receive", []string{"libs/bus.(*Server).", "libs/bus.(*workers).", "libs/bus.(*slots).", "libs/bus.(*sealer).open", "libs/bus.(*recentCalls)."}},
	{"service: arguments", []string{"libs/service.decode"}},
	{"service: SDK", []string{"libs/service."}},
	{"handler", []string{"services/text."}},
	{"service: result, reply", []string{"libs/service.encode", "libs/bus.(*Responder).", "libs/bus.newResponder"}},
	{"write HTTP", []string{
		"net/http.(*response).", "net/http.(*chunkWriter).", "net/http.checkConnErrorWriter.", "services/edge/door/streamable.(*writer).", "services/edge/door.TimeWrite", "services/edge/door.paced.", "main.write",
	}},
	{"link audit: the event", []string{"services/edge/gateway.audit.", "services/edge/gateway.record", "services/edge/gateway.logged.", "services/edge/metrics.", "services/edge/audit."}},
	{"audit: to the stream", []string{"services/edge/audit.(*Trail).run", "services/edge/audit.(*queue).", "libs/bus/auditlog.(*Log).", "libs/bus/auditlog.(*group)."}},
	{"audit: JetStream", []string{server + "(*stream).", server + "(*fileStore).", server + "(*msgBlock).", server + "(*consumer).", server + "(*jetStream).", server + "(*jsAccount)."}},
	{"audit: service", []string{"libs/bus/auditlog.", "services/audit.", "services/audit/trail."}},
	{"audit: SQLite", []string{"services/audit/internal/table.", "libs/database.", "database/sql.", "modernc.org/"}},
	{"garbage collection", []string{
		"runtime.gcBgMarkWorker", "runtime.gcAssist", "runtime.gcStart", "runtime.gcMarkDone", "runtime.gcMarkTermination", "runtime.bgsweep", "runtime.bgscavenge", "runtime.GC",
	}},
	{"scheduler, wake-ups", []string{
		"runtime.mcall", "runtime.mstart", "runtime.schedule", "runtime.findRunnable", "runtime.ready", "runtime.wakep", "runtime.newproc", "runtime.gopark", "runtime.park_m", "runtime.goexit0", "runtime.gosched", "runtime.newstack", "runtime.morestack", "runtime.sysmon", "runtime.netpoll",
	}},
}
