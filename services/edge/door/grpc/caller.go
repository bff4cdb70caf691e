package grpc

import (
	"context"
	"net"
	"net/http"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// toolset is the metadata that names a toolset.
const toolset = "busbar-toolset"

type callerKey struct{}

// caller is the caller of a call, with the call's idempotency key.
func caller(ctx context.Context, key string) api.Caller {
	who, _ := ctx.Value(callerKey{}).(api.Caller)
	who.IdempotencyKey = key
	return who
}

// open are the services that need no credentials: health, and reflection if it is served.
func open(method string) bool {
	return !strings.HasPrefix(method, "/"+gatewayv1.GatewayService_ServiceDesc.ServiceName+"/")
}

// admit finds the caller of a call.
func (g guard) admit(ctx context.Context, method string) (context.Context, error) {
	if open(method) {
		return ctx, nil
	}
	c, err := shown(ctx, method)
	if err != nil {
		return ctx, err
	}
	who := api.Caller{Door: "grpc", Traceparent: c.Header.Get("Traceparent"), Tracestate: c.Header.Get("Tracestate")}
	if who.Credentials, err = g.api.Admit(ctx, "grpc", c); err != nil {
		return ctx, err
	}
	return context.WithValue(ctx, callerKey{}, who), nil
}

// shown are the credentials of a call: from its metadata and from its connection.
func shown(ctx context.Context, method string) (gateway.Credentials, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c := gateway.Credentials{Header: make(http.Header, len(md)), Method: http.MethodPost, Path: method}
	for name, values := range md {
		c.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := md.Get(":authority"); len(host) == 1 {
		c.Host = host[0]
	}
	if p, ok := peer.FromContext(ctx); ok {
		c.Address = p.Addr.String()
		if host, _, err := net.SplitHostPort(c.Address); err == nil {
			c.Address = host
		}
		if t, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.Secure = true
			if certificates := t.State.PeerCertificates; len(certificates) > 0 {
				c.Certificate = certificates[0]
			}
		}
	}
	switch set := md.Get(toolset); {
	case len(set) > 1:
		return c, fault.New(fault.InvalidRequest, "metadata %s appears twice", toolset)
	case len(set) == 1:
		c.Toolset = set[0]
	}
	const scheme = "bearer "
	switch v := md.Get("authorization"); {
	case len(v) > 1:
		return c, fault.New(fault.InvalidRequest, "metadata authorization appears twice")
	case len(v) == 1 && len(v[0]) > len(scheme) && strings.EqualFold(v[0][:len(scheme)], scheme):
		c.Bearer = strings.TrimSpace(v[0][len(scheme):])
	}
	return c, nil
}
