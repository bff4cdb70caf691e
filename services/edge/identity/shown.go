package identity

import (
	"strings"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Schemes of the Authorization header.
const (
	bearer = "bearer"
	dpop   = "dpop"
)

// shown is what the Authorization header has: scheme is empty for none, token for
// none of a scheme that is known here.
type shown struct{ scheme, token string }

// maxHeader bounds the Authorization header, in bytes; a token is shorter.
const maxHeader = 16 << 10

// read reads what a request shows in the Authorization header, or over stdio. Two
// at once are refused: which of them counts would be somebody's guess.
func read(c *gateway.Credentials) (shown, error) {
	if c.Header == nil {
		if c.Bearer == "" {
			return shown{}, nil
		}
		return shown{bearer, c.Bearer}, nil
	}
	values := c.Header["Authorization"]
	switch {
	case len(values) == 0:
		return shown{}, nil
	case len(values) > 1:
		return shown{}, fault.New(fault.InvalidRequest, "the header Authorization appears twice").Because(errTwo)
	case len(values[0]) > maxHeader:
		return shown{}, fault.New(fault.InvalidRequest, "the header Authorization is longer than %d bytes", maxHeader).Because(errTwo)
	}
	scheme, token, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	scheme, token = strings.ToLower(scheme), strings.TrimSpace(token)
	switch {
	case scheme != bearer && scheme != dpop:
		return shown{scheme: strings.Trim(scheme, " ,") + " "}, nil
	case strings.ContainsAny(token, " ,\t"):
		return shown{}, fault.New(fault.InvalidRequest, "the header Authorization has more than one token").Because(errTwo)
	}
	return shown{scheme, token}, nil
}
