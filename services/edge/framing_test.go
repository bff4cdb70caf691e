package edge_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/services/edge/internal/edgetest"
)

func TestM6NothingFollowsARequestOfTwoLengths(t *testing.T) {
	t.Parallel()
	e := one(t)
	s := serve(t, e)
	t.Cleanup(func() {
		s.stop()
		if err := edgetest.Receive(t, "the edge stops", s.done); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	const smuggled = "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	head := "POST /v1 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		request string
		answers int
	}{
		"both headers":                 {head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 1},
		"the other order":              {head + "Transfer-Encoding: chunked\r\nContent-Length: 999\r\n\r\n0\r\n\r\n", 1},
		"in capitals":                  {head + "CONTENT-LENGTH: 5\r\nTRANSFER-ENCODING: CHUNKED\r\n\r\n0\r\n\r\n", 1},
		"bare line feeds":              {strings.ReplaceAll(head, "\r", "") + "Content-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n", 1},
		"a length alone":               {head + "Content-Length: 2\r\n\r\n{}", 2},
		"chunks alone":                 {head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 2},
		"one header in each of two":    {head + "Content-Length: 2\r\n\r\n{}" + head + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 3},
		"a header that is named alike": {head + "X-Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 2},
	} {
		for way, write := range map[string]func(net.Conn, string) error{
			"at once": func(c net.Conn, s string) error { _, err := io.WriteString(c, s); return err },
			"byte by byte": func(c net.Conn, s string) error {
				for i := range len(s) {
					if _, err := io.WriteString(c, s[i:i+1]); err != nil {
						return err
					}
				}
				return nil
			},
		} {
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				conn, err := net.Dial("tcp", s.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(bustest.Patience))
				go func() { _ = write(conn, c.request+smuggled) }() // the edge may close meanwhile
				in, got := bufio.NewReader(conn), 0
				for ; got < c.answers; got++ {
					resp, err := http.ReadResponse(in, nil)
					if err != nil {
						t.Fatalf("answer %d of %d: %v", got+1, c.answers, err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					if last := got == c.answers-1; c.answers == 1 && last != resp.Close {
						t.Errorf("the answer has %v", resp.Header)
					}
				}
				if c.answers > 1 {
					return
				}
				// The end may be a reset, because the edge leaves bytes unread.
				if rest, _ := io.ReadAll(in); len(rest) > 0 {
					t.Errorf("more was answered: %.200q", rest)
				}
			})
		}
	}
}
