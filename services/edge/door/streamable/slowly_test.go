package streamable_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"
)

// slowly reads the whole answer of a number of steps with a client that has little room.
// The error is for a client that was cut off.
func (w *world) slowly(t *testing.T, at *replica, h header, id string, steps int) error {
	t.Helper()
	slow := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(256 << 10)
		}
		return conn, err
	}}}
	defer slow.CloseIdleConnections()
	resp, err := slow.Do(w.resumption(t, at, h, id))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	pace := time.NewTicker(2 * time.Millisecond)
	defer pace.Stop()
	i := 1
	for e := range events(t, resp.Body) {
		<-pace.C
		switch i++; {
		case e.empty:
			i--
		case e.Method == "" && e.Text() == "released" && i > steps:
			return nil
		case e.Param("progress") != fmt.Sprint(i):
			t.Fatalf("want progress %d, got %+v %.200s", i, e.Error, e.Result)
		}
	}
	return fmt.Errorf("the stream ended after progress %d", i)
}
