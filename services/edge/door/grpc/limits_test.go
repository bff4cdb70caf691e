package grpc_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	rpcstatus "google.golang.org/grpc/status"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/budget"
	"github.com/busbar-mcp/busbar/services/edge/door/grpc"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	w := start(t)
	large := []byte(`{"a":"` + strings.Repeat("a", 1<<20) + `"}`)
	for name, c := range map[string]struct {
		ctx       context.Context
		arguments []byte
		options   []rpc.CallOption
		code      codes.Code
	}{
		"a large message":      {t.Context(), large, nil, codes.ResourceExhausted},
		"one that was small":   {t.Context(), large, []rpc.CallOption{rpc.UseCompressor(gzip.Name)}, codes.ResourceExhausted},
		"metadata of 64 KiB":   {metadata.AppendToOutgoingContext(t.Context(), "x", strings.Repeat("x", 64<<10)), nil, nil, codes.Internal},
		"a string of 600 KiB":  {t.Context(), []byte(`{"a":"` + strings.Repeat("a", 600<<10) + `"}`), nil, codes.ResourceExhausted},
		"nested 100 deep":      {t.Context(), []byte(`{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`), nil, codes.InvalidArgument},
		"no time at all":       {expired(t), nil, nil, codes.DeadlineExceeded},
		"a name of half a MiB": {t.Context(), nil, nil, codes.NotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tool := "echo"
			if c.code == codes.NotFound {
				tool = strings.Repeat("x", 512<<10)
			}
			stream, err := w.CallTool(c.ctx, &gatewayv1.CallToolRequest{Name: tool, Arguments: c.arguments}, c.options...)
			if err == nil {
				_, err = stream.Recv()
			}
			if got := rpcstatus.Code(err); got != c.code || len(err.Error()) > 1000 {
				t.Errorf("%v %.300v, want %v", got, err, c.code)
			}
		})
	}
	t.Cleanup(func() {
		if n := w.Svc.Calls.Load(); n != 0 {
			t.Errorf("%d calls ran", n)
		}
	})
}

func expired(t *testing.T) context.Context {
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	t.Cleanup(cancel)
	return ctx
}

// TestReflection asks for the services' descriptions: an edge on loopback answers,
// another one does not.
func TestReflection(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, conn *rpc.ClientConn) error {
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			return err
		}
		_ = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}})
		_ = stream.CloseSend()
		if _, err = stream.Recv(); err == nil {
			_, _ = stream.Recv() // the end
		}
		return err
	}
	t.Run("on loopback", func(t *testing.T) {
		t.Parallel()
		if err := ask(t, start(t).conn); err != nil {
			t.Error(err)
		}
	})
	t.Run("elsewhere", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- grpc.New(grpc.Config{API: api.New(gateway.New(gateway.Config{Budget: budget.New(0)}), nil)}).Serve(ctx, l, bustest.Patience)
		}()
		conn, err := rpc.NewClient(l.Addr().String(), rpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		if err := ask(t, conn); rpcstatus.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	})
}
