package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/services/edge/protocol"
)

// FuzzEventID passes a client's Last-Event-ID to both parsers: an id belongs to an answer or to a
// stream of changes, never to both, and means the same when it is written again.
func FuzzEventID(f *testing.F) {
	for _, id := range []string{
		protocol.EventID("XMU3RBOIGASEOZ75GS7TFSHTXN", edges.Position{Round: 1, Seq: 7}), protocol.EventID("X", edges.Position{Round: 1<<32 - 1}),
		protocol.ChangeID(time.Unix(0, 1), "ab12"), "c-1-", "c--1", "c-1-2", "-1-2", "X-4294967296-1", "X-+1-1", "X-1-1-1", "--", "",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		name, at, ok := protocol.ParseEventID(id)
		if ok {
			if strings.Contains(name, "-") {
				t.Errorf("%q names %q", id, name)
			}
			again, same, ok := protocol.ParseEventID(protocol.EventID(name, at))
			if !ok || again != name || same != at {
				t.Errorf("%q is %q %v, written again %q %v %v", id, name, at, again, same, ok)
			}
		}
		then, digest, ok := protocol.ParseChangeID(id)
		if ok != (ok && protocol.IsChangeID(id)) {
			t.Errorf("%q is one of changes, and is not", id)
		}
		if ok && digest != "" { // without one it means now
			again, same, ok := protocol.ParseChangeID(protocol.ChangeID(then, digest))
			if !ok || !again.Equal(then) || same != digest {
				t.Errorf("%q is %v %q, written again %v %q %v", id, then, digest, again, same, ok)
			}
		}
	})
}

// An id says where a client is, whatever the numbers.
func TestEventIDs(t *testing.T) {
	t.Parallel()
	for _, at := range []edges.Position{{}, {Round: 1}, {Round: 1, Seq: 1}, {Round: 1<<32 - 1, Seq: 1<<32 - 1}} {
		id := protocol.EventID("NAME", at)
		if name, got, ok := protocol.ParseEventID(id); !ok || name != "NAME" || got != at || protocol.IsChangeID(id) {
			t.Errorf("%v became %q, read as %q %v %v", at, id, name, got, ok)
		}
	}
	for _, id := range []string{"", "-", "--", "NAME", "NAME-1", "NAME-1-", "NAME--1", "NAME-1-1-1", "NAME-1-x", "NAME-1-4294967296", "NAME--1-1", "NAME-0x1-1", "NAME-1_0-1"} {
		if _, at, ok := protocol.ParseEventID(id); ok {
			t.Errorf("%q is taken for %v", id, at)
		}
	}
}
