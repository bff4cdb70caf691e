// Package subject has every subject of the bus; no other package of Busbar composes one. Each
// function makes or reads one kind of subject. Start reading at Call and Reply.
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

// Names that take the place of a service's name in subjects.
const (
	// Client is used in the reply subject of an answer from a client.
	Client = "client"
	// Edge is used in messages between edges.
	Edge = "edge"
	// Gateway is the service through which services call tools at an edge.
	Gateway = "gateway"
	// Operator is the user of people, and their name in the audit trail.
	Operator = "operator"
	// Developer is the user of services that a development bus does not know.
	Developer = "developer"
)

var reserved = []string{Client, Edge, Gateway, Operator, Developer}

// Inbox is the prefix of a user's inboxes.
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

// Call is the subject of requests for a service; the slashes of the method become dots.
func Call(service, method string) string { return callRoot + service + "." + verb(method) }

// Calls matches all requests for a service.
func Calls(service string) string { return callRoot + service + ".>" }

// To is the subject of requests for one instance of a service.
func To(service, instance, method string) string {
	return toRoot + service + "." + instance + "." + verb(method)
}

// ToInstance matches all requests for one instance.
func ToInstance(service, instance string) string { return toRoot + service + "." + instance + ".>" }

// verb turns a method into subject tokens. Methods are a closed set of the
// protocol's own, so this is injective and never carries user text.
func verb(method string) string { return strings.ReplaceAll(method, "/", ".") }

// Reply is the subject of a service's answer to one call of an edge.
func Reply(service, edge, token string) string { return replyRoot + service + "." + edge + "." + token }

// Replies matches all answers for an edge; an edge has this one subscription for them.
func Replies(edge string) string { return Reply("*", edge, "*") }

// FromService is the subject on which a service asks edges to carry out a method.
func FromService(service, method string) string {
	return callRoot + Gateway + "." + service + "." + verb(method)
}

// FromServices matches the tool calls that services make.
const FromServices = callRoot + Gateway + ".*.tools.call"

// CancelFrom is the subject on which a service cancels a call of its own.
func CancelFrom(service string) string { return ctlRoot + Gateway + "." + service + ".cancel" }

// CancelsFrom matches the cancellations of all services.
const CancelsFrom = ctlRoot + Gateway + ".*.cancel"

// Sender is the service that sent a message of FromServices or CancelsFrom: NATS lets no other
// service publish there.
func Sender(subject string) string {
	if tokens := strings.Split(subject, "."); len(tokens) > 3 && tokens[2] == Gateway && Token(tokens[3]) {
		return tokens[3]
	}
	return ""
}

// ReplyTo is the subject of an edge's answer to one call of a service's instance.
func ReplyTo(service, instance, token string) string {
	return replyRoot + Gateway + "." + service + "." + instance + "." + token
}

// OwnReply reports whether a service may answer on that subject. Otherwise a caller could make it
// publish where the caller itself may not.
func OwnReply(service, reply string) bool {
	rest, ok := strings.CutPrefix(reply, replyRoot)
	return ok && strings.HasPrefix(rest, service+".")
}

// Frames is the subject of the frames of one call of a stream. edge is the edge that created the
// stream, not the one that serves it now.
func Frames(service, edge, stream string, round uint32, call string) string {
	return eventRoot + service + "." + edge + "." + stream + "." + strconv.FormatUint(uint64(round), 10) + "." + call
}

// FramesOf matches the frames of all streams of an edge, kept and live.
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

// OwnFrames reports whether a service may keep frames on that subject.
func OwnFrames(service, subject string) bool {
	owner, _, _, ok := Round(subject)
	return ok && owner == service && Kept(subject)
}

// Kept reports whether the event stream keeps messages on that subject.
func Kept(subject string) bool { return strings.HasPrefix(subject, eventRoot) }

// Live is the subject of heartbeats that the stream need not keep, for a kept subject.
func Live(kept string) string { return liveRoot + strings.TrimPrefix(kept, eventRoot) }

// KeptOf is the kept subject that belongs to a live one; ok is false for other subjects.
func KeptOf(live string) (kept string, ok bool) {
	rest, ok := strings.CutPrefix(live, liveRoot)
	return eventRoot + rest, ok
}

// Updated is the subject on which a service announces that a resource has changed.
func Updated(service string) string { return eventRoot + service + updatedVerb }

// UpdatedBy is the service of an Updated subject.
func UpdatedBy(subject string) string {
	return strings.TrimSuffix(strings.TrimPrefix(subject, eventRoot), updatedVerb)
}

// Cancel is the subject on which the instances of a service are told that a call is given up.
func Cancel(service string) string { return ctlRoot + service + ".cancel" }

// Permit is the subject on which one instance is told whether it may begin a call.
func Permit(service, instance string) string { return ctlRoot + service + ".permit." + instance }

// Catalogue is the subject on which an edge asks for a catalogue that it cannot read.
func Catalogue(service, digest string) string { return ctlRoot + service + ".catalogue." + digest }

// Changed is the subject on which an instance tells the others that their shared data has changed.
func Changed(service string) string { return ctlRoot + service + ".changed" }

// Stats is the subject on which one instance is asked for its counts.
func Stats(service, instance string) string { return ctlRoot + service + ".stats." + instance }

// Logs is the subject on which an operator asks the instances of a service for their calls' log
// records.
func Logs(service string) string { return ctlRoot + service + ".logs" }

// IsInbox reports whether a subject is an inbox, which is only used for answers.
func IsInbox(subject string) bool {
	return strings.HasPrefix(subject, "_INBOX.") && len(subject) <= 256 && !strings.ContainsAny(subject, "*> ")
}

// Names is the subject on which edges are told that a name was assigned.
const Names = ctlRoot + Edge + ".names"

// Message is the subject on which an edge receives clients' posts for streams that it holds.
func Message(edge string) string { return ctlRoot + Edge + "." + edge + ".message" }

// Tokens is the subject on which an edge is asked for tokens of a limit.
func Tokens(edge string) string { return ctlRoot + Edge + "." + edge + ".tokens" }

// Task is the subject on which runs of a service's tasks are queued.
func Task(service string) string { return taskRoot + service }

// Audit is the subject on which an edge publishes its audit events.
func Audit(edge string) string { return auditRoot + edge }

// AuditOf is the edge of an Audit subject.
func AuditOf(subject string) string { return strings.TrimPrefix(subject, auditRoot) }

// Dead is the subject under which messages that could not be handled are kept, by kind.
func Dead(kind string) string { return deadRoot + kind }

// Key is the subject on which a bucket's key is written.
func Key(bucket, key string) string { return keyRoot + bucket + "." + key }

// KeyOf is the key of a bucket that belongs to a Key subject.
func KeyOf(bucket, subject string) string { return strings.TrimPrefix(subject, Key(bucket, "")) }

// Get is the subject on which a stream is asked for messages without a consumer.
func Get(stream string) string { return getRoot + stream }

// Next is the subject on which a consumer of a stream is asked for messages.
func Next(stream, consumer string) string {
	return "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer
}

// Delete is the subject on which a stream is asked to delete a message.
func Delete(stream string) string { return "$JS.API.STREAM.MSG.DELETE." + stream }

// StepDown is the subject on which the leader of a stream is asked to hand over to another server.
func StepDown(stream string) string { return "$JS.API.STREAM.LEADER.STEPDOWN." + stream }

// GetFromLeader is the subject on which the server that takes a bucket's writes is asked for
// messages.
func GetFromLeader(bucket string) string { return "$JS.API.STREAM.MSG.GET.KV_" + bucket }

// GetKey is the subject on which a bucket is asked for the last write of a key.
func GetKey(bucket, key string) string { return Get("KV_"+bucket) + "." + Key(bucket, key) }
