package link

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// echo answers each line with itself.
func echo(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for in := bufio.NewScanner(c); in.Scan(); {
					_, _ = c.Write(append(in.Bytes(), '\n'))
				}
			}()
		}
	}()
	return l.Addr().String()
}

func dial(t *testing.T, k *Link) (net.Conn, <-chan string) {
	c, err := net.Dial("tcp", k.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	heard := make(chan string, 10)
	go func() {
		defer close(heard)
		for in := bufio.NewScanner(c); in.Scan(); {
			heard <- in.Text()
		}
	}()
	return c, heard
}

func say(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := c.Write([]byte(line + "\n")); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, heard <-chan string, want string) {
	t.Helper()
	select {
	case got, open := <-heard:
		if !open || got != want {
			t.Fatalf("heard %q, %v, and not %q", got, open, want)
		}
	case <-time.After(bustest.Patience):
		t.Fatalf("never heard %q", want)
	}
}

func TestLink(t *testing.T) {
	t.Parallel()
	k, err := Listen("127.0.0.1:0", "127.0.0.1:1", echo(t)) // nobody is at the first
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	c, heard := dial(t, k)
	say(t, c, "whole")
	hear(t, heard, "whole")

	// Held bytes arrive when the link is mended, and not before.
	k.Hold()
	say(t, c, "held")
	other, alsoHeard := dial(t, k)
	say(t, other, "held too")
	select {
	case got := <-heard:
		t.Fatalf("heard %q through a link that holds", got)
	case <-time.After(20 * time.Millisecond):
	}
	k.Mend()
	hear(t, heard, "held")
	hear(t, alsoHeard, "held too")

	const delay = 30 * time.Millisecond
	k.Delay(delay)
	began := time.Now()
	say(t, c, "late")
	hear(t, heard, "late")
	if took := time.Since(began); took < 2*delay { // there and back
		t.Errorf("a delay of %v each way took %v", delay, took)
	}

	k.Cut()
	if got, open := <-heard; open {
		t.Errorf("heard %q after the cut", got)
	}
	_, refused := dial(t, k)
	if got, open := <-refused; open {
		t.Errorf("heard %q through a link that is cut", got)
	}
	k.Mend()
	c, heard = dial(t, k)
	say(t, c, "again")
	hear(t, heard, "again")
}
