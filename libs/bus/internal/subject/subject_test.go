package subject

import (
	"strings"
	"testing"
)

// A service cannot have the name of a part of the bus.
func TestValidName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "text-2_X": true, strings.Repeat("x", 64): true,
		"": false, "a.b": false, "*": false, ">": false, "a b": false, "ä": false, strings.Repeat("x", 65): false,
		"client": false, "edge": false, "gateway": false, "operator": false, "developer": false,
	} {
		if got := ValidName(name) == nil; got != want {
			t.Errorf("%q is valid: %t", name, got)
		}
	}
}

// FuzzSubject gives arbitrary subjects to the functions that read stream subjects: a service may
// keep frames only below its own name, and each place has exactly one subject.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{
		Frames("svc", "edge1", "stream", 7, "call"), Live(Frames("svc", "e", "s", 1, "c")), Updated("svc"),
		"mcp.evt.svc.e.s.x.c", "mcp.evt.svc.*.s.1.>", "mcp.evt.svc.e.s.1.c d", "mcp.evt..e.s.1.c", "......", "",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, subject string) {
		service, round, call, ok := Round(subject)
		if !ok {
			if OwnFrames("svc", subject) {
				t.Errorf("frames are kept at %q", subject)
			}
			return
		}
		if round == 0 || !Token(service) || !Token(call) || strings.ContainsAny(strings.SplitN(subject, ".", 3)[2], " \t\r\n*>\x00") {
			t.Errorf("%q is taken for a subject", subject)
		}
		for _, name := range []string{"svc", service, service + "x"} {
			if OwnFrames(name, subject) && (name != service || !strings.HasPrefix(subject, "mcp.evt."+name+".")) {
				t.Errorf("%s keeps frames at %q", name, subject)
			}
		}
	})
}
