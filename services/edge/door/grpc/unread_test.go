package grpc_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rpc "google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	gatewayv1 "github.com/busbar-mcp/busbar/gen/busbar/gateway/v1"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// largeText is the size of a result of the tool large.
const largeText = 100_000

func withLarge(s *edgetest.Service) {
	// Read-only: where the trail is slow, an effect would be refused, and its stream
	// would end before others.
	service.AddTool(s.Service, service.Tool{Name: "large", ReadOnly: true, InputSchema: []byte(`{"type":"object"}`)}, func(context.Context, *service.Call, []byte) (*service.Result, error) {
		return edgetest.Text(strings.Repeat("x", largeText)), nil
	})
}

// HTTP/2 by hand, because the clients of libraries read everything that they are sent.
const (
	frameData, frameHeaders, frameReset, frameSettings = 0, 1, 3, 4
	framePing, frameWindow                             = 6, 8
)

type h2 struct {
	net.Conn
	t testing.TB
}

func dialH2(t testing.TB, address string, settings ...byte) *h2 {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &h2{conn, t}
	if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	c.send(frameSettings, 0, 0, settings)
	return c
}

func (c *h2) send(kind, flags byte, stream uint32, payload []byte) {
	c.t.Helper()
	frame := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags}
	frame = append(binary.BigEndian.AppendUint32(frame, stream), payload...)
	if _, err := c.Write(frame); err != nil {
		c.t.Logf("send a frame: %v", err)
	}
}

// call calls the tool large on a stream.
func (c *h2) call(stream uint32) {
	c.t.Helper()
	var headers []byte
	for _, h := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/busbar.gateway.v1.GatewayService/CallTool"}, {":authority", "localhost"}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		headers = append(append(headers, 0, byte(len(h[0]))), h[0]...)
		headers = append(append(headers, byte(len(h[1]))), h[1]...)
	}
	c.send(frameHeaders, 4, stream, headers)
	message, err := proto.Marshal(&gatewayv1.CallToolRequest{Name: "large"})
	if err != nil {
		c.t.Fatal(err)
	}
	c.send(frameData, 1, stream, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
}

// read reads a frame within a minute, and answers pings. last is set if its stream ends.
func (c *h2) read() (kind byte, last bool, stream uint32, payload []byte, err error) {
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var head [9]byte
	if _, err = io.ReadFull(c, head[:]); err != nil {
		return 0, false, 0, nil, err
	}
	payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
	_, err = io.ReadFull(c, payload)
	if head[3] == framePing && head[4] == 0 {
		c.send(framePing, 1, 0, payload)
	}
	kind, stream = head[3], binary.BigEndian.Uint32(head[5:])
	last = kind == frameReset || kind <= frameHeaders && head[4]&1 != 0
	return kind, last, stream, payload, err
}

// metric is a value of /metrics.
func (w *world) metric(t testing.TB, name string) float64 {
	t.Helper()
	r, err := http.Get("http://" + w.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	b, _ := io.ReadAll(r.Body)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(b)
	if found == nil {
		t.Fatalf("no %s in %s", name, b)
	}
	v, _ := strconv.ParseFloat(string(found[1]), 64)
	return v
}

func (w *world) await(t testing.TB, name, what string, is func(float64) bool) {
	t.Helper()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if v := w.metric(t, name); is(v) {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%s is %v after a minute, want %s", name, v, what)
		}
	}
}

const streams, held = "busbar_grpc_streams", "busbar_results_held_bytes"

func none(v float64) bool { return v == 0 }

// TestM7StreamsThatNobodyReads has a client with full windows, and one that does not read
// its connection at all.
func TestM7StreamsThatNobodyReads(t *testing.T) {
	t.Parallel()
	t.Run("M7 without window updates", func(t *testing.T) {
		t.Parallel()
		w := start(t, withLarge)
		c := dialH2(t, w.grpc)
		for i := range uint32(100) {
			c.call(2*i + 1)
		}
		c.call(201) // one more than the limit
		reset, ended, refused, most := 0, 0, false, uint32(0)
		all := make(chan error, 1)
		go func() {
			for ended < 100 || !refused {
				kind, last, stream, payload, err := c.read()
				switch {
				case err != nil:
					all <- fmt.Errorf("%d streams have ended: %w", ended, err)
					return
				case kind == frameSettings:
					for ; len(payload) >= 6; payload = payload[6:] {
						if payload[1] == 3 {
							most = binary.BigEndian.Uint32(payload[2:])
						}
					}
				case last && stream == 201:
					refused = kind == frameReset
				case last:
					ended++
					if kind == frameReset {
						reset++
					}
				}
			}
			all <- nil
		}()
		w.await(t, held, "some results", func(v float64) bool { return v >= largeText })
		if _, r, err := w.call(t.Context(), "echo", "{}"); err != nil || r == nil {
			t.Errorf("another client: %v", err)
		}
		if err := <-all; err != nil {
			t.Fatal(err)
		}
		if most != 100 || reset < 10 {
			t.Errorf("the client is told of %d streams, want 100; %d were reset", most, reset)
		}
		w.await(t, streams, "0", none)
		w.await(t, held, "0", none)
		if _, r, err := w.call(t.Context(), "large", ""); err != nil || len(r.Content) < largeText {
			t.Errorf("afterwards: %v", err)
		}
	})
	t.Run("M7 a connection that is not read", func(t *testing.T) {
		t.Parallel()
		w := start(t, withLarge)
		const unbounded = "\x7f\xff\xff\xff"
		c := dialH2(t, w.grpc, []byte("\x00\x04"+unbounded)...)
		c.send(frameWindow, 0, 0, []byte("\x7f\xff\x00\x00"))
		for i := range uint32(100) {
			c.call(2*i + 1)
		}
		w.await(t, held, "some results", func(v float64) bool { return v > 0 })
		w.await(t, streams, "0", none)
		w.await(t, held, "0", none)
	})
}

// TestM7ConnectionsOfOneAddress opens more connections than the limit.
func TestM7ConnectionsOfOneAddress(t *testing.T) {
	t.Parallel()
	w := start(t)
	open := make([]*h2, 500)
	for i := range open {
		open[i] = dialH2(t, w.grpc)
		if kind, _, _, _, err := open[i].read(); err != nil || kind != frameSettings {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	c, err := net.Dial("tcp", w.grpc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("connection 501: %d %v", n, err)
	}
	_ = open[0].Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := w.CallTool(ctx, &gatewayv1.CallToolRequest{Name: "safe"}, rpc.WaitForReady(true))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

// TestM7MessagesNobodyTakes sends much more to a batch than it reads.
func TestM7MessagesNobodyTakes(t *testing.T) {
	t.Parallel()
	w := start(t)
	conn, err := rpc.NewClient(w.grpc, rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	batch, err := gatewayv1.NewGatewayServiceClient(conn).BatchTools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 10
	arguments := []byte(`{"a":"` + strings.Repeat("a", size) + `"}`)
	var sent atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 400 {
			if batch.Send(&gatewayv1.BatchToolsRequest{Name: "hold", Arguments: arguments, Parallel: 1}) != nil {
				return
			}
			sent.Add(size)
		}
	}()
	<-w.Svc.Started
	for range 20 {
		if _, _, err := w.call(t.Context(), "echo", `{"a":"`+strings.Repeat("a", size)+`"}`); err != nil {
			t.Fatal(err)
		}
	}
	if n := sent.Load(); n > 16*size {
		t.Errorf("%d bytes were taken of a batch whose first call still runs", n)
	}
	_ = conn.Close()
	<-ended
}
