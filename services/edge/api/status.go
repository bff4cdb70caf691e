package api

import (
	"net/http"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// statuses of the reasons; docs/errors.md has the table. A reason not named is
// a defect.
var statuses = map[fault.Reason]int{
	fault.ParseError: http.StatusBadRequest, fault.InvalidRequest: http.StatusBadRequest, fault.InvalidParams: http.StatusBadRequest,
	fault.TooLarge: http.StatusRequestEntityTooLarge, fault.MissingCapability: http.StatusUnprocessableEntity,
	fault.MethodNotFound: http.StatusNotFound, fault.UnknownTool: http.StatusNotFound, fault.UnknownPrompt: http.StatusNotFound,
	fault.UnknownResource: http.StatusNotFound, fault.UnknownSession: http.StatusNotFound, fault.UnknownTask: http.StatusNotFound,
	fault.Unauthenticated: http.StatusUnauthorized, fault.Forbidden: http.StatusForbidden, fault.Conflict: http.StatusConflict,
	fault.ApprovalRequired: http.StatusAccepted, fault.UnknownApproval: http.StatusNotFound,
	fault.RateLimited: http.StatusTooManyRequests, fault.Overloaded: http.StatusServiceUnavailable,
	fault.Unavailable: http.StatusServiceUnavailable, fault.DeadlineExceeded: http.StatusGatewayTimeout,
	fault.PeerLost: http.StatusGatewayTimeout, fault.Cancelled: http.StatusServiceUnavailable, fault.HistoryLost: http.StatusGone,
	fault.ResultTooLarge: http.StatusInternalServerError, fault.Internal: http.StatusInternalServerError,
}

// Status is the HTTP status of a reason.
func Status(r fault.Reason) int {
	if s, named := statuses[r]; named {
		return s
	}
	return http.StatusInternalServerError
}
