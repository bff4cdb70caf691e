package bus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/share"
)

// memory is what an instance keeps of some calls, of at most so many bytes.
func memory(calls, bytes int) *keptCalls {
	return &keptCalls{life: time.Minute, maxCalls: calls, maxBytes: bytes, whole: true}
}

// ends has a call begin and end with a result of this size.
func (k *keptCalls) ends(id string, of share.Name, size int) {
	k.begin(id, of)
	k.end(id, &busv1.Result{Json: []byte(strings.Repeat("x", size))}, nil)
}

func (k *keptCalls) is(t *testing.T, id string, want busv1.Outcome_State) {
	t.Helper()
	if got := k.outcome(id).State; got != want {
		t.Errorf("call %s is %v, want %v", id, got, want)
	}
}

const (
	hasEnded  = busv1.Outcome_STATE_ENDED
	forgotten = busv1.Outcome_STATE_FORGOTTEN
	runs      = busv1.Outcome_STATE_RUNNING
)

// Two attempts of a call reach one instance. The first is refused while the second runs: the
// instance remembers the call until it ends, and afterwards how it ended.
func TestD3ARefusedAttemptDoesNotForgetTheOneThatRuns(t *testing.T) {
	t.Parallel()
	k := memory(100, 1<<20)
	k.is(t, "abc", busv1.Outcome_STATE_NEVER_BEGUN)
	k.begin("abc", share.Name{})
	k.begin("abc-2", share.Name{})
	k.unbegun("abc")
	k.is(t, "abc", runs)
	k.end("abc-2", &busv1.Result{}, nil)
	k.is(t, "abc", hasEnded)
	// A third attempt that is refused does not change that.
	k.begin("abc-3", share.Name{})
	k.is(t, "abc", runs)
	k.unbegun("abc-3")
	k.is(t, "abc", hasEnded)
	k.begin("xyz", share.Name{})
	k.unbegun("xyz")
	k.is(t, "xyz", busv1.Outcome_STATE_NEVER_BEGUN)
}

// An answer is forgotten when it is old or large.
func TestAnswersAreForgotten(t *testing.T) {
	t.Parallel()
	k := memory(100, 1<<20)
	k.ends("large", share.Name{}, maxKeptAnswer+1)
	k.is(t, "large", forgotten)
	k.ends("old", share.Name{}, 1)
	k.life = 0
	k.is(t, "old", forgotten)
	k.ends("next", share.Name{}, 1)
	if kept := k.answered.All.Size; kept > 10 {
		t.Errorf("%d bytes are kept", kept)
	}
}

// An instance remembers a limited number of calls, and a tenant that fills that memory loses its
// own calls: within the tenant, the caller that has most of them.
func TestATenantsAnswersMakeNoOthersForgotten(t *testing.T) {
	t.Parallel()
	k := memory(100, 256<<10)
	k.ends("small", share.Name{Tenant: "small"}, 2)
	k.ends("modest", share.Name{Tenant: "large", Account: "modest"}, 2)
	for n := range 5 {
		k.ends(fmt.Sprint("large", n), share.Name{Tenant: "large", Account: fmt.Sprint(n)}, 90<<10)
	}
	k.is(t, "small", hasEnded)
	k.is(t, "modest", hasEnded)
	k.is(t, "large4", hasEnded)
	k.is(t, "large0", forgotten)
}

// Many callers with one call each make the average so low that nearly every caller is above it.
// Still the caller with the most calls loses one; of equal callers, the one with the oldest call.
func TestManyCallersMakeNoOneForgotten(t *testing.T) {
	t.Parallel()
	const most, hogs = 40, 4
	k := memory(most, hogs*61<<10)
	call := func(payer string) string {
		id := strings.ReplaceAll(payer, "hog", fmt.Sprint("hog", len(k.calls)))
		k.ends(id, share.Name{Account: payer}, max(2, map[string]int{"hog": 60 << 10, "some": 20 << 10}[payer]))
		return id
	}
	var ofHog []string
	for range hogs {
		ofHog = append(ofHog, call("hog"))
	}
	first := call("payer 0")
	for i := 1; i < most-hogs-1; i++ {
		call(fmt.Sprint("payer ", i))
	}
	some := call("some")
	k.is(t, some, hasEnded)
	k.is(t, ofHog[0], forgotten)
	k.is(t, ofHog[hogs-1], hasEnded)
	// There is no room for more calls: all calls of the hog but the last are dropped.
	for i := range hogs - 1 {
		call(fmt.Sprint("next ", i))
	}
	k.is(t, first, hasEnded)
	k.is(t, call("last"), hasEnded)
	call("the very last")
	k.is(t, first, forgotten)
}
