package edge_test

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

// flooder is a client that writes any frames.
type flooder struct {
	*http2.Framer
	conn *tls.Conn
	next uint32 // stream
	// written counts the frames of the client, frames the frames of the edge.
	written int
	// ended is closed when the edge has ended the connection.
	ended  chan struct{}
	frames atomic.Int64
	goAway atomic.Uint32
}

// floodTime is how long a client floods or reads at most: far longer than the 40 s after
// which an edge ends a connection that answers no ping.
const floodTime = 3 * bustest.Patience

// flood connects, and reads the edge's frames if reads is set.
func (s *encrypted) flood(t *testing.T, reads bool, settings ...http2.Setting) *flooder {
	t.Helper()
	cfg := s.config()
	cfg.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", s.http, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(floodTime))
	f := &flooder{conn: conn, next: 1, ended: make(chan struct{})}
	f.Framer = http2.NewFramer(f, conn)
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = f.WriteSettings(settings...)
	if reads {
		go f.read()
	}
	return f
}

// Write is called once for each frame.
func (f *flooder) Write(b []byte) (int, error) {
	f.written++
	return f.conn.Write(b)
}

func (f *flooder) read() {
	defer close(f.ended)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		f.frames.Add(1)
		if end, ok := frame.(*http2.GoAwayFrame); ok {
			f.goAway.Store(uint32(end.ErrCode))
		}
	}
}

func block(fields ...string) []byte {
	var b strings.Builder
	e := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return []byte(b.String())
}

func get2(path string) []byte {
	return block(":method", "GET", ":scheme", "https", ":authority", "localhost", ":path", path)
}

// open opens a stream.
func (f *flooder) open(headers []byte, endStream bool) (uint32, error) {
	id := f.next
	f.next += 2
	return id, f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: headers, EndStream: endStream, EndHeaders: true})
}

// processorTime is the processor time of this process.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Each flood is thousands of frames of one client, or a few large ones, while another
// client calls a tool. Not in parallel with other tests: it measures the processor time,
// which includes the client's.
func TestCase29HTTP2Floods(t *testing.T) {
	e := one(t)
	s := encrypt(t, e)
	other := s.client(t, 2)
	if _, err := s.call(other, "before"); err != nil {
		t.Fatal(err)
	}
	// The processor time of a call shows how fast the processor is.
	const calls = 200
	begun := processorTime(t)
	for range calls {
		if _, err := s.call(other, "before"); err != nil {
			t.Fatal(err)
		}
	}
	perCall := (processorTime(t) - begun) / calls
	t.Logf("%v of processor for a call", perCall)
	const frames = 10_000
	repeat := func(frames int, write func(*flooder) error) func(*flooder) error {
		return func(f *flooder) error {
			for range frames {
				if err := write(f); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for name, c := range map[string]struct {
		ends  bool
		flood func(*flooder) error
	}{
		"rapid reset": {true, func(f *flooder) error { // CVE-2023-44487
			for {
				id, err := f.open(get2("/mcp"), true)
				if err == nil {
					err = f.WriteRSTStream(id, http2.ErrCodeCancel)
				}
				if err != nil {
					return err
				}
			}
		}},
		"resets that the edge makes": {true, repeat(frames, func(f *flooder) error { // CVE-2025-8671
			id, err := f.open(get2("/mcp"), true)
			if err == nil {
				err = f.WriteWindowUpdate(id, 1<<31-1)
			}
			return err
		})},
		"continuation": {true, func(f *flooder) error { // CVE-2023-45288
			fragment := block(strings.Repeat("x", 50), strings.Repeat("y", 50))
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: get2("/healthz")})
			for range 100 * frames {
				if err != nil {
					break
				}
				err = f.WriteContinuation(1, false, fragment)
			}
			return err
		}},
		"settings": {false, repeat(frames/3, func(f *flooder) error { return f.WriteSettings() })},
		"ping":     {false, repeat(frames/3, func(f *flooder) error { return f.WritePing(false, [8]byte{}) })},
		"priority": {false, repeat(frames/3, func(f *flooder) error {
			return f.WritePriority(f.next, http2.PriorityParam{Weight: 1})
		})},
		"window update": {false, repeat(frames/3, func(f *flooder) error { return f.WriteWindowUpdate(0, 1) })},
		"unknown frame": {false, repeat(frames/3, func(f *flooder) error { return f.WriteRawFrame(0xfa, 0, 0, []byte("x")) })},
		"empty data": {false, func(f *flooder) error {
			id, err := f.open(block(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/v1", "content-type", "application/json"), false)
			for range frames {
				if err != nil {
					break
				}
				err = f.WriteData(id, false, nil)
			}
			return err
		}},
		"many streams": {false, repeat(frames/3, func(f *flooder) error {
			_, err := f.open(block(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/v1", "content-type", "application/json"), false)
			return err
		})},
		"header bomb": {false, func(f *flooder) error { // one byte stands for 4,000
			bomb := append(get2("/healthz"), 0x40, 1, 'a', 0x7f)
			bomb = append(binary.AppendUvarint(bomb, 4000-127), strings.Repeat("b", 4000)...)
			bomb = append(bomb, strings.Repeat("\xbe", 10_000)...)
			for range frames / 100 {
				if _, err := f.open(bomb, true); err != nil {
					return err
				}
			}
			return nil
		}},
		"a header of 1 MiB": {false, func(f *flooder) error {
			large := get2("/healthz")
			for range 70 {
				large = append(large, block("x", strings.Repeat("é", 8000))...)
			}
			err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: large[:16000], EndStream: true})
			for at := 16000; err == nil && at < len(large); at += 16000 {
				err = f.WriteContinuation(1, at+16000 >= len(large), large[at:min(at+16000, len(large))])
			}
			return err
		}},
		"a frame that is too large": {true, func(f *flooder) error {
			return f.WriteRawFrame(http2.FrameData, 0, 1, make([]byte, 1<<20))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := s.flood(t, true)
			ctx, stop := context.WithCancel(t.Context())
			var slowest time.Duration
			var calls int
			served := make(chan error, 1)
			go func() {
				for {
					begun := time.Now()
					if _, err := s.call(other, "meanwhile"); err != nil || ctx.Err() != nil {
						served <- err
						return
					}
					slowest, calls = max(slowest, time.Since(begun)), calls+1
					time.Sleep(10 * time.Millisecond) // the processor's time is to be the flood's
				}
			}()
			used := processorTime(t)
			err := c.flood(f)
			// The written frames are handled before the connection ends.
			_ = f.WritePing(false, [8]byte{1})
			if c.ends {
				edgetest.Receive(t, "the edge ends the connection", f.ended)
			} else if err == nil {
				_ = f.conn.CloseWrite()
				edgetest.Receive(t, "the connection ends", f.ended)
			}
			used = processorTime(t) - used
			stop()
			if err := <-served; err != nil {
				t.Errorf("another client is not served: %v", err)
			}
			_ = f.conn.Close()
			most := max(3*time.Second, 1500*perCall) // some have a few large frames
			if f.written > 1000 {
				most = max(3*time.Second/frames, perCall/4) * time.Duration(f.written)
			}
			if used > most {
				t.Errorf("%d frames took %v of processor", f.written, used)
			}
			t.Logf("%d frames, %v of processor, with %d calls of another client, the slowest %v; %d frames came back, code %v; the flood: %v",
				f.written, used, calls, slowest, f.frames.Load(), http2.ErrCode(f.goAway.Load()), err)
		})
	}
	bustest.Eventually(t, "nothing is left of the floods", func() bool {
		runtime.GC()
		return runtime.NumGoroutine() < 200
	})
}

// A flood that only time ends: it differs from a client only in that it answers no ping,
// or reads nothing. It sends as many frames as matter, and then goes on slowly.
func TestCase29FloodsWithoutAnswers(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := encrypt(t, e)
	other := s.client(t, 2)
	for name, c := range map[string]struct {
		begin, frame func(*flooder) error
		frames       int
	}{
		"empty continuation": {
			func(f *flooder) error {
				return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: get2("/healthz")})
			},
			func(f *flooder) error { return f.WriteContinuation(1, false, nil) }, 20_000,
		},
		"ping, no read": {
			func(*flooder) error { return nil }, func(f *flooder) error { return f.WritePing(false, [8]byte{}) }, 200_000, // more than all the buffers between them hold
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := s.flood(t, false)
			err := c.begin(f)
			for err == nil {
				if err = c.frame(f); f.written > c.frames {
					time.Sleep(20 * time.Millisecond)
				}
				if f.written%5000 == 0 {
					if _, err := s.call(other, "meanwhile"); err != nil {
						t.Errorf("another client is not served: %v", err)
					}
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the edge does not end the connection after %d frames: %v", f.written, err)
			}
		})
	}
}

// Requests that have begun cost an edge more than they cost a client that takes them
// back. So a client that takes back most of its requests loses its connection.
func TestCase29RequestsTakenBack(t *testing.T) {
	t.Parallel()
	w := start(t)
	e := w.Join(t).Edge
	f := encrypt(t, e).flood(t, true)
	// Many concurrent ones: on a slow machine, a sequence would be too slow for a flood.
	const atOnce = 50
	begun, err, start := 0, error(nil), time.Now()
	for deadline := time.Now().Add(floodTime); err == nil; begun += atOnce {
		if time.Now().After(deadline) {
			t.Fatalf("the connection goes on after %d", begun)
		}
		var ids []uint32
		for i := 0; i < atOnce && err == nil; i++ {
			var id uint32
			if id, err = f.open(block(":method", "POST", ":scheme", "https", ":authority", "localhost", ":path", "/tools/hold", "content-type", "application/json"), false); err == nil {
				err = f.WriteData(id, true, []byte("{}"))
			}
			ids = append(ids, id)
		}
		for i := 0; i < len(ids) && err == nil; i++ {
			select {
			case <-w.Svc.Started:
			case <-f.ended:
				err = io.EOF
			}
		}
		for i := 0; i < len(ids) && err == nil; i++ {
			err = f.WriteRSTStream(ids[i], http2.ErrCodeCancel)
		}
		for len(w.Svc.Ended) > 0 {
			<-w.Svc.Ended // calls wait for room in this channel
		}
	}
	// The edge ends a connection for another reason, too: this client answers no ping,
	// and a ping comes after 30 s.
	took := time.Since(start)
	if begun < 500 && took < 30*time.Second {
		t.Errorf("after %d in %v: %v", begun, took, err)
	}
	// Without a flood, at most 500 are taken back in each 10 s, and some are under way.
	if most := 500*(1+int(took/(10*time.Second))) + 4*atOnce; begun > most {
		t.Errorf("the connection went on for %d requests, %d at most in %v", begun, most, took)
	}
	edgetest.Receive(t, "the edge ends the connection", f.ended)
}

// A client that reads hardly anything loses each of its streams, and while it has them
// delays no other client.
func TestCase29SlowReaderOfManyStreams(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := encrypt(t, e)
	f := s.flood(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
	const streams = 100
	pace := time.NewTicker(5 * time.Millisecond) // a byte of each stream in half a second
	defer pace.Stop()
	for range streams {
		if _, err := f.open(get2("/openapi.json"), true); err != nil {
			t.Fatal(err)
		}
	}
	other := s.client(t, 2)
	for cut := map[uint32]bool{}; len(cut) < streams; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("%v, %d are cut", err, len(cut))
		}
		switch frame := frame.(type) {
		case *http2.RSTStreamFrame:
			cut[frame.StreamID] = true
		case *http2.DataFrame: // reading a byte at a time does not count as progress
			<-pace.C
			if err := f.WriteWindowUpdate(frame.StreamID, 1); err != nil {
				t.Fatal(err)
			}
			if _, err := s.call(other, "meanwhile"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
