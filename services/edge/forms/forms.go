// Package forms has two tables: the form of each failure reason in each protocol that the
// edge speaks, and what to do about the failure there. docs/reference/errors.md shows
// both, with the meanings. Start with table in forms.go and ways in way.go.
package forms

import (
	"google.golang.org/grpc/codes"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Form is a reason in the terms of each protocol.
type Form struct {
	MCP RPC
	// HTTP is the status at HTTP doors that are not MCP's.
	HTTP int
	GRPC codes.Code
	// GraphQL is extensions.code.
	GraphQL string
}

// RPC is a JSON-RPC error with its HTTP status: for 2026-07-28, and for earlier versions.
// Clients of either read the body of a 200. Other statuses are used where the
// specification requires them, or where no message could be read.
type RPC struct{ status, code, legacyStatus, legacyCode int }

// In is the error in a version of the protocol; pass an empty version if it is not known.
func (r RPC) In(version string) (status, code int) {
	if version == mcp.Modern {
		return r.status, r.code
	}
	return r.legacyStatus, r.legacyCode
}

func both(status, code int) RPC { return RPC{status, code, status, code} }

// ForReason is the form of a reason. A reason that is not in the table is a defect, and gets the
// form of internal.
func ForReason(r fault.Reason) Form {
	if f, named := table[r]; named {
		return f
	}
	return table[fault.Internal]
}

var table = map[fault.Reason]Form{
	fault.ParseError:         {both(400, mcp.CodeParseError), 400, codes.InvalidArgument, "GRAPHQL_PARSE_FAILED"},
	fault.InvalidRequest:     {both(400, mcp.CodeInvalidRequest), 400, codes.InvalidArgument, "BAD_USER_INPUT"},
	fault.TooLarge:           {both(413, mcp.CodeInvalidRequest), 413, codes.ResourceExhausted, "LIMIT_EXCEEDED"},
	fault.HeaderMismatch:     {both(400, mcp.CodeHeaderMismatch), 500, codes.Internal, "INTERNAL"},     // only at MCP
	fault.UnsupportedVersion: {both(400, mcp.CodeUnsupportedVersion), 500, codes.Internal, "INTERNAL"}, // only at MCP
	fault.MissingCapability:  {RPC{400, mcp.CodeMissingCapability, 200, mcp.CodeInvalidRequest}, 422, codes.FailedPrecondition, "BAD_USER_INPUT"},
	fault.MethodNotFound:     {RPC{404, mcp.CodeMethodNotFound, 200, mcp.CodeMethodNotFound}, 404, codes.Unimplemented, "GRAPHQL_VALIDATION_FAILED"},
	fault.InvalidParams:      {RPC{400, mcp.CodeInvalidParams, 200, mcp.CodeInvalidParams}, 400, codes.InvalidArgument, "BAD_USER_INPUT"},
	fault.UnknownTool:        {both(200, mcp.CodeInvalidParams), 404, codes.NotFound, "NOT_FOUND"},
	fault.UnknownPrompt:      {both(200, mcp.CodeInvalidParams), 404, codes.NotFound, "NOT_FOUND"},
	fault.UnknownResource:    {RPC{200, mcp.CodeInvalidParams, 200, mcp.CodeLegacyNoResource}, 404, codes.NotFound, "NOT_FOUND"},
	fault.UnknownTask:        {both(200, mcp.CodeInvalidParams), 404, codes.NotFound, "NOT_FOUND"},
	fault.UnknownSession:     {both(404, mcp.CodeInvalidRequest), 404, codes.NotFound, "NOT_FOUND"},
	fault.UnknownToolset:     {both(404, mcp.CodeInvalidRequest), 404, codes.NotFound, "NOT_FOUND"},
	fault.Unauthenticated:    {both(401, mcp.CodeUnauthenticated), 401, codes.Unauthenticated, "UNAUTHENTICATED"},
	fault.Forbidden:          {both(403, mcp.CodeForbidden), 403, codes.PermissionDenied, "FORBIDDEN"},
	fault.ApprovalRequired:   {both(200, mcp.CodeApprovalRequired), 202, codes.FailedPrecondition, "APPROVAL_REQUIRED"},
	fault.UnknownApproval:    {both(200, mcp.CodeInvalidParams), 404, codes.NotFound, "NOT_FOUND"},
	fault.InputRequired:      {both(200, mcp.CodeInputRequired), 202, codes.FailedPrecondition, "INPUT_REQUIRED"},
	fault.UnknownElicitation: {both(200, mcp.CodeInvalidParams), 404, codes.NotFound, "NOT_FOUND"},
	fault.Conflict:           {both(200, mcp.CodeConflict), 409, codes.AlreadyExists, "CONFLICT"},
	fault.RateLimited:        {both(200, mcp.CodeRateLimited), 429, codes.ResourceExhausted, "RATE_LIMITED"},
	fault.Overloaded:         {both(200, mcp.CodeUnavailable), 503, codes.Unavailable, "UNAVAILABLE"},
	fault.Unavailable:        {both(200, mcp.CodeUnavailable), 503, codes.Unavailable, "UNAVAILABLE"},
	fault.DeadlineExceeded:   {RPC{200, mcp.CodeDeadline, 200, mcp.CodeLegacyServerError}, 504, codes.DeadlineExceeded, "TIMEOUT"},
	fault.PeerLost:           {both(200, mcp.CodeDeadline), 504, codes.DeadlineExceeded, "TIMEOUT"},
	fault.Cancelled:          {both(200, mcp.CodeCancelled), 503, codes.Canceled, "CANCELLED"},
	fault.HistoryLost:        {both(400, mcp.CodeHistoryLost), 410, codes.DataLoss, "GONE"},
	fault.ResultTooLarge:     {both(200, mcp.CodeTooLarge), 500, codes.ResourceExhausted, "LIMIT_EXCEEDED"},
	fault.Internal:           {both(200, mcp.CodeInternal), 500, codes.Internal, "INTERNAL"},
}
