package era

import (
	"context"
	"slices"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/session"
)

// maxSubscribed bounds the resources one client hears of.
const maxSubscribed = 200

// maxSubscribedBytes bounds their URIs together, wherever the session is kept.
const maxSubscribedBytes = 32 << 10

// subscribe answers a legacy client's resources/subscribe and unsubscribe. The
// session remembers, so that the client's stream may be at any edge.
func (s *Server) subscribe(ctx context.Context, r *Request, x Exchange) {
	uri := r.Message.P.URI
	err := s.mayChange(r, uri)
	if err == nil {
		err = s.changeSession(ctx, r, func(n *session.Session) error {
			rest := slices.DeleteFunc(slices.Clone(n.Subscribed), func(u string) bool { return u == uri })
			if r.Message.Method == mcp.MethodSubscribe {
				rest = append(rest, uri)
			}
			if len(rest) > maxSubscribed {
				return fault.New(fault.TooLarge, "a session subscribes to at most %d resources", maxSubscribed)
			}
			size := 0
			for _, u := range rest {
				size += len(u)
			}
			if size > maxSubscribedBytes {
				return fault.New(fault.TooLarge, "the URIs that a session subscribes to have at most %d bytes together", maxSubscribedBytes)
			}
			n.Subscribed = rest
			return nil
		})
	}
	if err != nil {
		s.Refuse(r, x, err)
		return
	}
	s.result(r, x, complete, nil, nil, "")
}

func (s *Server) mayChange(r *Request, uri string) error {
	switch {
	case uri == "":
		return fault.New(fault.InvalidParams, "params.uri is missing")
	case r.Session == nil:
		return fault.New(fault.InvalidRequest, "%s needs a session: send initialize first, and its Mcp-Session-Id with every request", r.Message.Method)
	case r.Message.Method == mcp.MethodUnsubscribe:
		return nil
	}
	if _, ok := s.gateway.Catalogue().Now().Resource(uri); !ok {
		return gateway.UnknownResource(uri)
	}
	return nil
}

// updated is the notification of one resource, with the members of _meta that
// a modern subscription has; nil for none.
func updated(uri string, meta []byte) []byte {
	params := []byte{'{'}
	if meta != nil {
		params = append(append(append(params, `"_meta":{`...), meta...), `},`...)
	}
	params = appendQuoted(append(params, `"uri":`...), uri)
	return notification(mcp.NotifyResourceUpdated, append(params, '}'))
}
