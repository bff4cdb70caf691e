// Package subject has every subject of the bus. Nothing else in Busbar writes
// one.
package subject

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	callRoot  = "mcp.call."
	toRoot    = "mcp.to."
	replyRoot = "mcp.reply."
	ctlRoot   = "mcp.ctl."
	eventRoot = "mcp.evt."
	liveRoot  = "mcp.live."
	taskRoot  = "mcp.task."
	auditRoot = "mcp.audit."
	deadRoot  = "mcp.dlq."
	keyRoot   = "$KV."
	getRoot   = "$JS.API.DIRECT.GET."

	updatedVerb = ".updated"
)

// Names that stand where a service's name does.
const (
	// Client is in the reply subject of an answer that comes from a client.
	Client = "client"
	// Edge is in what edges tell each other.
	Edge = "edge"
	// Gateway is the service that edges are for other services.
	Gateway = "gateway"
	// Operator is the user of people, and what the audit trail calls them.
	Operator = "operator"
	// Developer is the user of services that a development bus was not told of.
	Developer = "developer"
)

var reserved = []string{Client, Edge, Gateway, Operator, Developer}

// Inbox is what the inboxes of a user begin with.
func Inbox(user string) string { return "_INBOX." + user }

// ValidName checks the name of a service: a Token that the bus does not use
// itself.
func ValidName(name string) error {
	if !Token(name) {
		return fmt.Errorf("name %q: use 1 to 64 characters of a-z, A-Z, 0-9, - and _", name)
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("name %q is taken by the bus itself", name)
	}
	return nil
}

// Token reports whether s may be one token of a subject, and part of a bucket's
// key: 1 to 64 characters of a-z, A-Z, 0-9, - and _.
func Token(s string) bool {
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return len(s) >= 1 && len(s) <= 64
}

// Streams that keep what is published on these subjects.
const (
	Events = eventRoot + ">"
	Tasks  = taskRoot + "*"
	Audits = auditRoot + ">"
	Deads  = deadRoot + ">"
)

// Call is where requests for a service go; the method's slashes become dots.
func Call(service, method string) string { return callRoot + service + "." + verb(method) }

// Calls are all of a service's.
func Calls(service string) string { return callRoot + service + ".>" }

// To is where requests for one instance of a service go.
func To(service, instance, method string) string {
	return toRoot + service + "." + instance + "." + verb(method)
}

// ToInstance are all of an instance's.
func ToInstance(service, instance string) string { return toRoot + service + "." + instance + ".>" }

// verb turns a method into subject tokens. Methods are a closed set of the
// protocol's own, so this is injective and never carries user text.
func verb(method string) string { return strings.ReplaceAll(method, "/", ".") }

// Reply is where a service answers one call of an edge.
func Reply(service, edge, token string) string { return replyRoot + service + "." + edge + "." + token }

// Replies is an edge's one subscription for every answer it waits for.
func Replies(edge string) string { return Reply("*", edge, "*") }

// FromService is where a service has edges carry out a method.
func FromService(service, method string) string {
	return callRoot + Gateway + "." + service + "." + verb(method)
}

// FromServices are the calls of tools of all services.
const FromServices = callRoot + Gateway + ".*.tools.call"

// CancelFrom is where a service gives up a call of its own, CancelsFrom where all do.
func CancelFrom(service string) string { return ctlRoot + Gateway + "." + service + ".cancel" }

// CancelsFrom matches the cancellations of all services.
const CancelsFrom = ctlRoot + Gateway + ".*.cancel"

// Sender is the service that a message of FromServices or CancelsFrom is of: NATS
// lets no other publish there.
func Sender(subject string) string {
	if tokens := strings.Split(subject, "."); len(tokens) > 3 && tokens[2] == Gateway && Token(tokens[3]) {
		return tokens[3]
	}
	return ""
}

// ReplyTo is where edges answer one call of a service's instance.
func ReplyTo(service, instance, token string) string {
	return replyRoot + Gateway + "." + service + "." + instance + "." + token
}

// OwnReply reports whether a service may answer there. Elsewhere a caller
// could have it publish what the caller itself may not.
func OwnReply(service, reply string) bool {
	rest, ok := strings.CutPrefix(reply, replyRoot)
	return ok && strings.HasPrefix(rest, service+".")
}

// Frames keeps the frames of one call of a stream. edge is the one that made
// the stream, whoever serves it now.
func Frames(service, edge, stream string, round uint32, call string) string {
	return eventRoot + service + "." + edge + "." + stream + "." + strconv.FormatUint(uint64(round), 10) + "." + call
}

// FramesOf are an edge's subscriptions for the frames of its streams, kept
// ones and live ones.
func FramesOf(edge string) (kept, live string) {
	rest := "*." + edge + ".>"
	return eventRoot + rest, liveRoot + rest
}

// FramesIn matches the frames of one stream.
func FramesIn(edge, stream string) (kept, live string) {
	return FramesOf(edge + "." + stream)
}

// Round reads the subject of a stream's frame, kept or live; ok is false for
// another one.
func Round(subject string) (service string, round uint32, call string, ok bool) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 7 {
		return "", 0, "", false
	}
	for _, t := range tokens[2:] { // edges ask clients too
		if !Token(t) {
			return "", 0, "", false
		}
	}
	n, err := strconv.ParseUint(tokens[5], 10, 32)
	return tokens[2], uint32(n), tokens[6], err == nil && n > 0
}

// OwnFrames reports whether a service may keep frames there.
func OwnFrames(service, subject string) bool {
	owner, _, _, ok := Round(subject)
	return ok && owner == service && Kept(subject)
}

// Kept reports whether the event stream keeps what is published there.
func Kept(subject string) bool { return strings.HasPrefix(subject, eventRoot) }

// Live is where signs of life go that the stream of a subject need not keep.
func Live(kept string) string { return liveRoot + strings.TrimPrefix(kept, eventRoot) }

// KeptOf is the subject whose live one this is; ok is false for another one.
func KeptOf(live string) (kept string, ok bool) {
	rest, ok := strings.CutPrefix(live, liveRoot)
	return eventRoot + rest, ok
}

// Updated is where a service says that a resource has changed.
func Updated(service string) string { return eventRoot + service + updatedVerb }

// UpdatedBy is the service whose Updated this is.
func UpdatedBy(subject string) string {
	return strings.TrimSuffix(strings.TrimPrefix(subject, eventRoot), updatedVerb)
}

// Cancel is where the instances of a service are told that a call is given up.
func Cancel(service string) string { return ctlRoot + service + ".cancel" }

// Permit is where one instance hears whether it may begin a call.
func Permit(service, instance string) string { return ctlRoot + service + ".permit." + instance }

// Catalogue is where an edge asks for a catalogue that it cannot read.
func Catalogue(service, digest string) string { return ctlRoot + service + ".catalogue." + digest }

// Changed is where an instance tells the others that what they share has
// changed.
func Changed(service string) string { return ctlRoot + service + ".changed" }

// Stats is where one instance tells its counts.
func Stats(service, instance string) string { return ctlRoot + service + ".stats." + instance }

// Logs is where an operator asks the instances of a service for what their calls log.
func Logs(service string) string { return ctlRoot + service + ".logs" }

// IsInbox reports whether somebody waits there for answers, and nothing else is
// published there.
func IsInbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX.") && len(subject) <= 256 && !strings.ContainsAny(subject, "*> ")
}

// Names is where edges hear that a name was assigned.
const Names = ctlRoot + Edge + ".names"

// Message is where an edge gets what clients post for streams it holds.
func Message(edge string) string { return ctlRoot + Edge + "." + edge + ".message" }

// Tokens is where an edge is asked for tokens of a limit.
func Tokens(edge string) string { return ctlRoot + Edge + "." + edge + ".tokens" }

// Task is where runs of a service's tasks are queued.
func Task(service string) string { return taskRoot + service }

// Audit is where an edge puts its part of the audit trail.
func Audit(edge string) string { return auditRoot + edge }

// AuditOf is the edge whose Audit this is.
func AuditOf(subject string) string { return strings.TrimPrefix(subject, auditRoot) }

// Dead is where what could not be handled is kept, by kind.
func Dead(kind string) string { return deadRoot + kind }

// Key is where a bucket's key is written.
func Key(bucket, key string) string { return keyRoot + bucket + "." + key }

// KeyOf is the key of a bucket that is written there.
func KeyOf(bucket, subject string) string { return strings.TrimPrefix(subject, Key(bucket, "")) }

// Get is where a stream is asked for messages without a consumer.
func Get(stream string) string { return getRoot + stream }

// Next is where a consumer of a stream is asked for messages.
func Next(stream, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer
}

// Delete is where a stream is asked to delete a message.
func Delete(stream string) string { return "$JS.API.STREAM.MSG.DELETE." + stream }

// StepDown is where the leader of a stream is asked to hand over to another server.
func StepDown(stream string) string { return "$JS.API.STREAM.LEADER.STEPDOWN." + stream }

// GetFromLeader is where the server that takes a bucket's writes is asked for messages.
func GetFromLeader(bucket string) string { return "$JS.API.STREAM.MSG.GET.KV_" + bucket }

// GetKey is where a bucket is asked for the last write of a key.
func GetKey(bucket, key string) string { return Get("KV_"+bucket) + "." + Key(bucket, key) }
