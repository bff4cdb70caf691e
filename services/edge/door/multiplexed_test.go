package door_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
	"github.com/busbar-mcp/busbar/services/edge/door"
)

const (
	// A busy machine may stand still for a second or two.
	serverTime = 4 * time.Second // for a handshake too
	writeTime  = 2 * time.Second
)

func TestMain(m *testing.M) {
	door.SetTimes(writeTime, time.Second)
	leaktest.Main(m)
}

// serveTLS serves HTTP/2, with a server whose own time limit for answers is short.
func serveTLS(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(door.Multiplexed(h))
	s.EnableHTTP2 = true
	s.Config.WriteTimeout = serverTime
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// A stream may be silent for longer than any write may take.
func TestMultiplexedSilence(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	s := serveTLS(t, func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		for range next {
			door.TimeWrite(control)
			_, _ = io.WriteString(w, "x")
			if err := control.Flush(); err != nil {
				t.Error(err)
			}
		}
		_, _ = io.WriteString(w, "end")
	})
	go func() {
		defer close(next)
		for _, silence := range []time.Duration{serverTime, writeTime, 0} { // the silence is the point of the test
			time.Sleep(silence + silence/2)
			next <- struct{}{}
		}
		time.Sleep(2 * writeTime)
	}()
	resp, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "xxxend" || resp.ProtoMajor != 2 {
		t.Errorf("%s %q %v", resp.Proto, body, err)
	}
}

// A client that gives a stream no room loses the stream, even if the handler has written
// everything and returned; its other streams go on.
func TestMultiplexedSlowReader(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 3)
	s := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
		var err error
		switch r.URL.Path {
		case "/small":
			_, err = io.WriteString(w, "x") // the server writes it after the end
		case "/flush":
			_, _ = io.WriteString(w, "x")
			err = http.NewResponseController(w).Flush()
		case "/large":
			_, err = io.WriteString(w, strings.Repeat("x", 1<<20))
		}
		ended <- err
	})
	conn, err := tls.Dial("tcp", s.Listener.Addr().String(), &tls.Config{RootCAs: s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(bustest.Patience))
	_, _ = io.WriteString(conn, http2.ClientPreface)
	f := http2.NewFramer(conn, conn)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	_ = f.WriteSettingsAck()
	for i, path := range []string{"/small", "/flush", "/large"} {
		var block strings.Builder
		e := hpack.NewEncoder(&block)
		for _, h := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}} {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		if err := f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: []byte(block.String()), EndStream: true, EndHeaders: true}); err != nil {
			t.Fatal(err)
		}
	}
	cut := map[uint32]bool{}
	for len(cut) < 3 {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatalf("%v, %v are cut", err, cut)
		}
		if reset, ok := frame.(*http2.RSTStreamFrame); ok {
			cut[reset.StreamID] = true
		}
	}
	failed := 0
	for range 3 {
		if <-ended != nil {
			failed++
		}
	}
	if failed != 2 {
		t.Errorf("%d handlers were told", failed)
	}
	_ = f.WritePing(false, [8]byte{1})
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() {
			return
		}
	}
}

// Bytes that a client announces and does not send take no room.
func TestReadBodyAnnounced(t *testing.T) {
	t.Parallel()
	const size = 960 << 10
	for name, sent := range map[string]int{"nothing": 0, "a little": 1000, "half": size / 2, "all": size} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		in := &roomy{Reader: strings.NewReader(strings.Repeat("x", sent))}
		r.ContentLength, r.Body = size, in
		body, err := door.ReadBody(httptest.NewRecorder(), r, size)
		if (err == nil) != (sent == size) || err == nil && string(body) != strings.Repeat("x", size) {
			t.Errorf("%s: %d bytes, %v", name, len(body), err)
		}
		if in.room > max(64<<10, sent) {
			t.Errorf("%s: %d bytes of room", name, in.room)
		}
	}
}

// roomy records the largest buffer that it was read into.
type roomy struct {
	io.Reader
	room int
}

func (r *roomy) Read(b []byte) (int, error) {
	r.room = max(r.room, len(b))
	return r.Reader.Read(b)
}

func (r *roomy) Close() error { return nil }
