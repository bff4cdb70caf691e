// Package permission defines what each program may do on the bus, and writes the NATS configuration
// that allows exactly that. Each kind of program is a User with its subjects; Config turns users
// into accounts. Start reading at Of and OfEdges. docs/reference/bus.md shows the same table, and a
// test compares them.
package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// Names of users that do not belong to a service.
const (
	Edge     = subject.Edge
	Operator = subject.Operator
	// Developer is the user of services that a development bus does not know, such as a service
	// that is just being written.
	Developer = subject.Developer
)

// User is a NATS user: what it may publish and subscribe to. A subject to subscribe to may be
// followed by a space and a queue group.
type User struct {
	Name               string
	Publish, Subscribe []string
}

// Inbox matches the inboxes on which a user receives answers; no other user may subscribe to them.
// Its name is the prefix of the inboxes of bus.Config.User.
func Inbox(user string) string { return subject.Inbox(user) + ".>" }

// Power is a right that a service may have beyond the rights of every service.
type Power string

const (
	// Calls: its tools call others.
	Calls Power = "calls"
	// Tasks: calls of its tools go on as tasks.
	Tasks Power = "tasks"
	// Refresh: its instances share changes of their data.
	Refresh Power = "refresh"
	// Store: it has a store of its own.
	Store Power = "store"
	// Audit: it keeps the audit trail.
	Audit Power = "audit"
)

// Powers are all powers.
var Powers = []Power{Calls, Tasks, Refresh, Store, Audit}

// Of is the user of a service with powers.
func Of(service string, powers ...Power) (User, error) {
	if err := subject.ValidName(service); err != nil {
		return User{}, fmt.Errorf("service %w", err)
	}
	for _, p := range powers {
		if !slices.Contains(Powers, p) {
			return User{}, fmt.Errorf("service %s: %q is not a known power: use %s", service, p, strings.Join(names(Powers), ", "))
		}
	}
	return of(service, service, powers), nil
}

// OfDeveloper is a user that may act as any service. It is for a bus on one person's machine. That
// person can read the secret of the edges anyway, so the user is in the edges' account.
func OfDeveloper() User { return of(Developer, "*", Powers) }

// of is the user of a service, or of all services that a pattern matches.
func of(name, service string, powers []Power) User {
	u := User{
		Name: name,
		Publish: []string{
			"mcp.reply.S.>", "mcp.evt.S.>", "mcp.live.S.>", "$KV.registry.S.*", "$KV.catalogue.S.*", "_INBOX.operator.>",
		},
		Subscribe: []string{"mcp.call.S.> S", "mcp.to.S.>", "mcp.ctl.S.>", "_INBOX.S.>", "$SRV.*", "$SRV.*.S", "$SRV.*.S.*"},
	}
	more := map[Power][2][]string{
		Calls: {{"mcp.call.gateway.S.tools.call", "mcp.ctl.gateway.S.cancel"}, {"mcp.reply.gateway.S.>"}},
		Tasks: {{
			"$KV.tasks.S.*", "$JS.API.DIRECT.GET.KV_tasks.$KV.tasks.S.*",
			"$JS.API.CONSUMER.MSG.NEXT.TASKS.S", "$JS.ACK.TASKS.S.>",
		}},
		Refresh: {{"mcp.ctl.S.changed"}},
		Store:   {{"$JS.API.DIRECT.GET.KV_registry.$KV.registry.S.store"}},
		Audit: {{
			"mcp.dlq.audit", "$KV.audit.head.*", "$KV.audit.key.*",
			"$JS.API.DIRECT.GET.KV_audit", "$JS.API.DIRECT.GET.KV_audit.$KV.audit.head.*", "$JS.API.DIRECT.GET.KV_audit.$KV.audit.key.*",
			"$JS.API.CONSUMER.MSG.NEXT.AUDIT.audit-v1", "$JS.ACK.AUDIT.audit-v1.>",
			"$JS.API.DIRECT.GET.DLQ",
		}},
	}
	for _, p := range Powers { // in one order, and each once
		if slices.Contains(powers, p) {
			u.Publish, u.Subscribe = append(u.Publish, more[p][0]...), append(u.Subscribe, more[p][1]...)
		}
	}
	for _, list := range [][]string{u.Publish, u.Subscribe} {
		for i, at := range list {
			list[i] = named(at, service)
		}
	}
	return u
}

// named replaces S by a service's name. S is not used as a token otherwise.
func named(at, service string) string {
	subject, queue, group := strings.Cut(at, " ")
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		if t == "S" {
			tokens[i] = service
		}
	}
	if at = strings.Join(tokens, "."); group {
		at += " " + strings.ReplaceAll(queue, "S", service)
	}
	return at
}

func names(powers []Power) (all []string) {
	for _, p := range powers {
		all = append(all, string(p))
	}
	return all
}

// OfEdges is the user of all edges. They share the sealing keys, so separate users would gain
// nothing.
func OfEdges() User {
	return User{
		Name: Edge,
		Publish: []string{
			"mcp.call.>", "mcp.to.>", "mcp.audit.*", "mcp.ctl.>", "mcp.reply.client.>", "mcp.reply.edge.>", "mcp.reply.gateway.>", "mcp.evt.>", "mcp.task.*",
			"$KV.sessions.>", "$KV.streams.>", "$KV.tasks.>", "$KV.keys.>", "$KV.names.>", "$KV.definitions.seen.*", "$KV.access.used.*", "$KV.approvals.>", "$KV.outcomes.>", "$KV.audit.digests", "$KV.limits.edges",
			"$JS.API.INFO", "$JS.API.STREAM.CREATE.*", "$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.INFO.*", "$JS.API.STREAM.PURGE.KV_registry", "$JS.API.STREAM.PURGE.KV_catalogue", "$JS.API.STREAM.PURGE.KV_tasks", "$JS.API.STREAM.MSG.GET.*", "$JS.API.STREAM.MSG.DELETE.DLQ", "$JS.API.STREAM.LEADER.STEPDOWN.*", "$JS.API.DIRECT.GET.>",
			"$JS.API.CONSUMER.CREATE.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>", "$JS.API.CONSUMER.DELETE.>",
		},
		Subscribe: []string{
			"mcp.reply.*.*.*", "mcp.call.gateway.*.tools.call gateway", "mcp.ctl.gateway.*.cancel", "mcp.ctl.edge.>", "mcp.evt.>", "mcp.live.>",
			"$KV.registry.>", "$KV.catalogue.>", "$KV.sessions.>", "$KV.tasks.>", "$KV.access.key.*", Inbox(Edge),
		},
	}
}

// OfOperators is the user of people: they list services, assign names, accept
// definitions of tools, make and revoke API keys, ask services for their counts and what their calls log, and look at
// how streams are kept.
func OfOperators() User {
	u := User{
		Name: Operator,
		Publish: []string{
			"$KV.names.>", "$KV.accepted.*", "$JS.API.DIRECT.GET.KV_accepted", "$KV.access.>", "mcp.ctl.edge.names", "mcp.audit.operator", "$SRV.>", "mcp.ctl.*.stats.*", "mcp.ctl.*.logs", "mcp.ctl.*.catalogue.*",
			"$JS.API.STREAM.INFO.*", "$JS.API.CONSUMER.LIST.*", "$SYS.REQ.USER.INFO",
		},
		Subscribe: []string{"$KV.registry.>", "$KV.catalogue.>", "mcp.ctl.edge.names", "mcp.evt.*.updated", Inbox(Operator)},
	}
	for _, bucket := range []string{"registry", "catalogue", "names", "accepted", "access"} {
		u.Publish = append(u.Publish, "$JS.API.DIRECT.GET.KV_"+bucket+".>",
			"$JS.API.CONSUMER.CREATE.KV_"+bucket+".>", "$JS.API.CONSUMER.MSG.NEXT.KV_"+bucket+".*", "$JS.API.CONSUMER.DELETE.KV_"+bucket+".*")
	}
	return u
}
