package main

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// hands are the files that hold a call while its tool runs, in the order in which they got it: the
// files on the stack of the edge's goroutine, which waits for the answer, and on the stack of the
// service's. Functions that they only ask on the way have returned by then.
type hands struct{ edge, service []string }

// frame is a call of a stack: a function, and where it is.
var frame = regexp.MustCompile(`(?m)^(\S+)\(.*\)\n\t(?:\S*/)?` + regexp.QuoteMeta(prefix) + `(\S+):\d+`)

// lookTime bounds how long the edge may take until it waits for the tool.
const lookTime = time.Minute

// look sees whose hands the call is in. The tool calls it, perhaps before the edge's goroutine has
// reached its wait.
func look() (h hands, err error) {
	for end := time.Now().Add(lookTime); time.Now().Before(end); runtime.Gosched() {
		var waits bool
		if h, waits, err = seen(); err != nil || waits {
			return h, err
		}
	}
	return h, fmt.Errorf("the edge does not wait for the tool within %v", lookTime)
}

// seen is whose hands the call is in now, and whether the edge's goroutine waits.
func seen() (h hands, waits bool, err error) {
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	all := strings.Split(string(stacks[:n]), "\n\n")
	// The first is the goroutine that asks.
	h.service = files(all[0])
	for _, one := range all[1:] {
		if strings.Contains(one, prefix+"services/edge.") && strings.Contains(one, "net/http.(*conn).serve") {
			if h.edge != nil {
				return h, false, fmt.Errorf("two calls are held by the edge")
			}
			h.edge = files(one)
			state, _, _ := strings.Cut(one, "\n")
			waits = strings.Contains(state, "[select")
		}
	}
	if h.edge == nil {
		return h, false, fmt.Errorf("no goroutine of the edge waits for the tool: was this built with -trimpath?")
	}
	return h, waits, nil
}

// files returns our files on a stack, the outermost first, each once.
func files(stack string) []string {
	var all []string
	for _, f := range slices.Backward(frame.FindAllStringSubmatch(stack, -1)) {
		if !strings.HasPrefix(f[2], "test/") && !slices.Contains(all, f[2]) {
			all = append(all, f[2])
		}
	}
	return all
}
