package isolation_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// outside creates the targets of attempts, and returns the environment that describes them.
func outside(t *testing.T, dir string) (env []string) {
	t.Helper()
	const secret = "a-secret"
	env = append(env, "GORACE=atexit_sleep_ms=0") // the race detector delays the end of each attempt by a second
	tell := func(name, value string) { env = append(env, "ATTEMPT_"+name+"="+value) }
	listen := func(network, address string) string {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l.Addr().String()
	}
	for _, name := range []string{"OUTSIDE", "OTHER", "DATA"} {
		at := t.TempDir()
		write(t, at+"/secret", secret)
		tell(name, at)
		if name == "OUTSIDE" {
			listen("unix", at+"/socket")
		}
	}
	beside, err := os.MkdirTemp(filepath.Dir(dir), "beside")
	if err != nil {
		t.Fatal(err)
	}
	write(t, beside+"/secret", secret)
	tell("BESIDE", filepath.Base(beside))
	abstract := filepath.Base(beside) + "-of-busbar"
	listen("unix", "@"+abstract)
	tell("ABSTRACT", abstract)
	tell("TCP", listen("tcp", "127.0.0.1:0"))
	tell("SECRET_BEGINS", "a") // no environment that a command may read contains the secret itself
	tell("PID", fmt.Sprint(os.Getpid()))
	// A file that children inherit by mistake.
	leaked, err := os.Open(filepath.Join(beside, "secret"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leaked.Close() })
	fd, err := unix.FcntlInt(leaked.Fd(), unix.F_DUPFD, 50)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	tell("FD", fmt.Sprint(fd))
	return env
}

// script makes attempts one after the other. An attempt that changes its process gets its own
// process; the others share one, because starting it takes longer than all of them.
func script(names []string) string {
	shared, own := "./attempt", ""
	for _, n := range names {
		if slices.Contains(alone, n) {
			own += fmt.Sprintf("./attempt %q\n", n)
		} else {
			shared += fmt.Sprintf(" %q", n)
		}
	}
	return shared + "\n" + own
}

func escaped(out string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "OUT: "); ok {
			all[strings.TrimSpace(name)] = true
		}
	}
	return all
}

// No attempt succeeds, whichever way isolates it. Without isolation the same attempts succeed,
// which shows that the isolation stops them and not a mistake in them.
func TestEscapes(t *testing.T) {
	working := ways(t)
	names := slices.Sorted(maps.Keys(attempts))
	if len(names) < 50 {
		t.Fatalf("there are only %d attempts", len(names))
	}
	dir := workspace(t)
	env := outside(t, dir)
	harmless := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return attempts[n].plainly == harms })
	out := plainly(t, dir, script(harmless), append(env, "ATTEMPT_OWN=a-secret")...)
	open := escaped(out)
	said := sync.OnceFunc(func() { t.Log(out) })
	for _, n := range harmless {
		if attempts[n].plainly == works && !open[n] {
			t.Errorf("without isolation %q does not work, so it shows nothing", n)
			said()
		}
	}
	t.Logf("%d of %d attempts work here without isolation", len(open), len(names))
	for _, w := range working {
		dir := workspace(t)
		env := outside(t, dir)
		r, out := run(t, t.Context(), w, dir, script(names)+"echo 'OUT: the end'; exit 0", usual, env...)
		got := escaped(out)
		if !got["the end"] || r.Exit != 0 {
			t.Fatalf("%s: %+v\n%s", w, r, out)
		}
		delete(got, "the end")
		for n := range got {
			t.Errorf("%s: %s gets out", w, n)
		}
		for _, n := range names {
			if !strings.Contains(out, n+": ") {
				t.Errorf("%s: %s was not tried", w, n)
			}
		}
		t.Logf("%s:\n%s", w, out)
	}
}
