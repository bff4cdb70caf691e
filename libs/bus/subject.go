// Package bus is the language services and edges speak over NATS: every
// subject and bucket name, the frames of an answer, absolute deadlines, signs
// of life, cancellation, draining, and the registry of what is there.
//
// Nothing else in Busbar builds a subject or touches NATS.
package bus

import (
	"fmt"
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
)

const (
	callRoot  = "mcp.call."
	replyRoot = "mcp.reply."
	ctlRoot   = "mcp.ctl."
	eventRoot = "mcp.evt."
	taskRoot  = "mcp.task."

	updatedVerb = ".updated"
)

// callSubject is where requests for a service go; verb is the MCP method with
// dots for slashes.
func callSubject(service, method string) string {
	return callRoot + service + "." + verb(method)
}

func callSubjects(service string) string { return callRoot + service + ".>" }

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

// updatedSubject is where a service says that a resource has changed.
func updatedSubject(service string) string { return eventRoot + service + updatedVerb }

func cancelSubject(service string) string { return ctlRoot + service + ".cancel" }

// taskSubject is where runs of a service's tasks are queued.
func taskSubject(service string) string { return taskRoot + service }

// taskKeySubject is where a task's record is written. The id begins with its
// service.
func taskKeySubject(id string) string { return "$KV." + TasksBucket + "." + id }

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

// reachable are the methods a service can be called with.
var reachable = map[string]bool{
	"tools/call": true, "resources/read": true, "prompts/get": true, "completion/complete": true,
	selfCheck: true,
}

// selfCheck is the call that asks a service whether it takes calls.
const selfCheck = "busbar/check"

func checkMethod(method string) error {
	if !reachable[method] {
		return fault.New(fault.MethodNotFound, "no service serves %s", method)
	}
	return nil
}
