package main

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// hands are the files that hold a call while its tool runs, in the order in which they
// got it: those on the stack of the edge's goroutine, which waits for the answer, and on
// that of the service's. What they only ask on the way has returned by then.
type hands struct{ edge, service []string }

// frame is a call of a stack: a function, and where it is.
var frame = regexp.MustCompile(`(?m)^(\S+)\(.*\)\n\t(?:\S*/)?` + regexp.QuoteMeta(prefix) + `(\S+):\d+`)

// look sees whose hands the call is in; it is called by the tool.
func look() (hands, error) {
	stacks := make([]byte, 1<<20)
	n := runtime.Stack(stacks, true)
	all := strings.Split(string(stacks[:n]), "\n\n")
	// The first is the goroutine that asks.
	h := hands{service: files(all[0])}
	for _, one := range all[1:] {
		if strings.Contains(one, prefix+"services/edge.") && strings.Contains(one, "net/http.(*conn).serve") {
			if h.edge != nil {
				return h, fmt.Errorf("two calls are held by the edge")
			}
			h.edge = files(one)
		}
	}
	if h.edge == nil {
		return h, fmt.Errorf("no goroutine of the edge waits for the tool: was this built with -trimpath?")
	}
	return h, nil
}

// files are those of a stack that are ours, the outermost first, each once.
func files(stack string) []string {
	var all []string
	for _, f := range slices.Backward(frame.FindAllStringSubmatch(stack, -1)) {
		if !strings.HasPrefix(f[2], "test/") && !slices.Contains(all, f[2]) {
			all = append(all, f[2])
		}
	}
	return all
}
