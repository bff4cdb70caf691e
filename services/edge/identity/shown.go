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

// shown is the content of the Authorization header. scheme is empty without that header;
// token is empty if the scheme is unknown.
type shown struct{ scheme, token string }

// maxHeader is the longest Authorization header, in bytes; a token is shorter.
const maxHeader = 16 << 10

// read reads the credentials in the Authorization header, or of stdio. It refuses two at once, because it
// would be unclear which one counts.
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
