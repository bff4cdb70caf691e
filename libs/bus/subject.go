// Package bus is the language services and edges speak over NATS: every
// subject and bucket name, the frames of an answer, absolute deadlines, signs
// of life, cancellation, draining, and the registry of what is there.
//
// Nothing else in Busbar builds a subject or touches NATS.
package bus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Buckets of the bus.
const (
	RegistryBucket  = "registry"
	CatalogueBucket = "catalogue"
	SessionsBucket  = "sessions"
	KeysBucket      = "keys"
	TasksBucket     = "tasks"
	StreamsBucket   = "streams"
	AuditBucket     = "audit"
	ApprovalsBucket = "approvals"
	OutcomesBucket  = "outcomes"
	NamesBucket     = "names"
)

const (
	callRoot  = "mcp.call."
	toRoot    = "mcp.to."
	replyRoot = "mcp.reply."
	ctlRoot   = "mcp.ctl."
	eventRoot = "mcp.evt."
	taskRoot  = "mcp.task."
	liveRoot  = "mcp.live."
	auditRoot = "mcp.audit."
	deadRoot  = "mcp.dlq."

	updatedVerb = ".updated"
)

// callSubject is where requests for a service go; verb is the MCP method with
// dots for slashes.
func callSubject(service, method string) string {
	return callRoot + service + "." + verb(method)
}

func callSubjects(service string) string { return callRoot + service + ".>" }

// toSubject is where requests for one instance of a service go.
func toSubject(service, instance, method string) string {
	return toRoot + service + "." + instance + "." + verb(method)
}

func toSubjects(service, instance string) string { return toRoot + service + "." + instance + ".>" }

// replySubjects is an edge's one subscription for every answer it waits for.
func replySubjects(edge string) string { return replyRoot + "*." + edge + ".*" }

func replySubject(service, edge, token string) string {
	return replyRoot + service + "." + edge + "." + token
}

// ownReply reports whether a service may answer there. Elsewhere a caller
// could have it publish what the caller itself may not.
func ownReply(service, reply string) bool {
	rest, ok := strings.CutPrefix(reply, replyRoot)
	return ok && strings.HasPrefix(rest, service+".")
}

// streamSubjects and liveSubjects are an edge's subscriptions for the answers
// of its streams.
func streamSubjects(edge string) string { return eventRoot + "*." + edge + ".>" }
func liveSubjects(edge string) string   { return liveRoot + "*." + edge + ".>" }

// streamSubject keeps the frames of one call of a stream. edge is the one that
// made the stream, whoever serves it now.
func streamSubject(service, edge, stream string, round uint32, call string) string {
	return eventRoot + service + "." + edge + "." + stream + "." + strconv.FormatUint(uint64(round), 10) + "." + call
}

// roundOf reads a stream's subject; ok is false for another.
func roundOf(subject string) (service string, round uint32, call string, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 7 {
		return "", 0, "", false
	}
	for i, t := range tokens[2:] {
		if ValidName(t) != nil && (i > 0 || t != edges) { // edges ask clients too
			return "", 0, "", false
		}
	}
	n, err := strconv.ParseUint(tokens[5], 10, 32)
	return tokens[2], uint32(n), tokens[6], err == nil && n > 0
}

// ownStream reports whether a service may keep frames there.
func ownStream(service, subject string) bool {
	owner, _, _, ok := roundOf(subject)
	return ok && owner == service && strings.HasPrefix(subject, eventRoot)
}

// liveSubject is where signs of life go that a stream need not keep.
func liveSubject(stream string) string { return liveRoot + strings.TrimPrefix(stream, eventRoot) }

// updatedSubject is where a service says that a resource has changed.
func updatedSubject(service string) string { return eventRoot + service + updatedVerb }

func cancelSubject(service string) string { return ctlRoot + service + ".cancel" }

// namesSubject is where edges hear that a name was assigned.
const namesSubject = ctlRoot + edges + ".names"

// wantCatalogueSubject is where an edge asks for a catalogue that it cannot read.
func wantCatalogueSubject(service, digest string) string {
	return ctlRoot + service + ".catalogue." + digest
}

// permitSubject is where one instance hears whether it may begin a call.
func permitSubject(service, instance string) string { return ctlRoot + service + ".permit." + instance }

// changedSubject is where an instance tells the others that what they share has
// changed.
func changedSubject(service string) string { return ctlRoot + service + ".changed" }

// taskSubject is where runs of a service's tasks are queued.
func taskSubject(service string) string { return taskRoot + service }

// taskKeySubject is where a task's record is written. The id begins with its
// service.
func taskKeySubject(id string) string { return "$KV." + TasksBucket + "." + id }

// messageSubject is where an edge gets what clients post for streams it holds.
func messageSubject(edge string) string { return ctlRoot + edges + "." + edge + ".message" }

// auditSubject is where an edge puts its part of the audit trail.
func auditSubject(edge string) string { return auditRoot + edge }

// deadSubject is where what could not be handled is kept, by kind.
func deadSubject(kind string) string { return deadRoot + kind }

func registryKey(service, instance string) string { return service + "." + instance }

func catalogueKey(service, digest string) string { return service + "." + digest }

// verb turns a method into subject tokens. Methods are a closed set of the
// protocol's own, so this is injective and never carries user text.
func verb(method string) string { return strings.ReplaceAll(method, "/", ".") }

// ValidName checks a service or instance name: it becomes one subject token
// and part of a bucket key. 1 to 64 characters of a-z, A-Z, 0-9, - and _.
func ValidName(name string) error {
	ok := len(name) >= 1 && len(name) <= 64
	for i := range len(name) {
		c := name[i]
		ok = ok && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_')
	}
	if name == clients || name == edges {
		return fmt.Errorf("name %q is taken by the bus itself", name)
	}
	if !ok {
		return fmt.Errorf("name %q: use 1 to 64 characters of a-z, A-Z, 0-9, - and _", name)
	}
	return nil
}

// ValidService checks the name of a service that is to take calls: a ValidName
// under which the bus's own parts serve nothing.
func ValidService(name string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	if name == Gateway {
		return fmt.Errorf("name %q is taken by the bus itself", name)
	}
	return nil
}

// reachable are the methods a service can be called with.
var reachable = map[string]bool{
	"tools/call": true, "resources/read": true, "prompts/get": true, "completion/complete": true,
	"sampling/createMessage": true,
	"resources/list":         true,
	selfCheck:                true, AuditQuery: true,
}

// selfCheck is the call that asks a service whether it takes calls.
const selfCheck = "busbar/check"

func checkMethod(method string) error {
	if !reachable[method] {
		return fault.New(fault.MethodNotFound, "no service serves %s", method)
	}
	return nil
}
