package mcp_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// nest is n levels of arrays or objects.
func nest(n int, open, inner, closing string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(closing, n)
}

// fastest is the shortest time of f in several runs: other programs can only slow it down.
func fastest(runs int, f func()) time.Duration {
	least := time.Duration(math.MaxInt64)
	for range runs {
		start := time.Now()
		f()
		least = min(least, time.Since(start))
	}
	return least
}

func TestParseBoundsDepth(t *testing.T) {
	t.Parallel()
	// The message is level 1, params 2, arguments 3.
	for name, in := range map[string]func(levels int) string{
		"arrays in arguments": func(n int) string { return request(`"arguments":{"a":` + nest(n-3, "[", "1", "]") + `}`) },
		"objects in arguments": func(n int) string {
			return request(`"arguments":{"a":` + nest(n-3, `{"a":`, "1", "}") + `}`)
		},
		"mixed in _meta": func(n int) string { return request(`"_meta":{"a":` + nest((n-3)/2, `{"a":[`, "1", "]}") + `}`) },
		"unknown member": func(n int) string {
			return `{"jsonrpc":"2.0","id":1,"method":"ping","x":` + nest(n-1, "[", "", "]") + `}`
		},
		"result":           func(n int) string { return `{"jsonrpc":"2.0","id":1,"result":` + nest(n-1, `{"a":`, "1", "}") + `}` },
		"id, never closed": func(n int) string { return `{"jsonrpc":"2.0","id":` + strings.Repeat("[", n-1) },
		"batch":            func(n int) string { return nest(n, "[", "", "]") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "id, never closed" && name != "batch" {
				accept(t, in(63))
				if name != "mixed in _meta" {
					accept(t, in(64))
				}
			}
			for _, levels := range []int{67, 1001, 100_000} {
				if name != "mixed in _meta" {
					refuse(t, in(65), fault.InvalidRequest)
				}
				body := in(levels)
				refuse(t, body, fault.InvalidRequest)
				if levels < 100_000 {
					continue
				}
				flat := request(`"arguments":{"a":["` + strings.Repeat(strings.Repeat("x", 997)+`","`, len(body)/1000) + `"]}`)
				accept(t, flat)
				took := fastest(50, func() { _, _ = mcp.Parse([]byte(body), mcp.Limits{}) })
				if plain := fastest(50, func() { _, _ = mcp.Parse([]byte(flat), mcp.Limits{}) }); took > 10*plain {
					t.Errorf("%d levels take %v to refuse, as many bytes without levels %v to read", levels, took, plain)
				}
			}
		})
	}
}

// Not parallel: it measures what refusing costs.
func TestParseBoundsWidth(t *testing.T) {
	members := func(n int) string {
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `"k%d":0`, i)
		}
		return b.String()
	}
	// The message of request counts 6 values of its own beside the elements:
	// itself, jsonrpc, id, method, params and arguments; and the array.
	array := func(n int) string { return request(`"arguments":{"a":[0` + strings.Repeat(",0", n-1) + `]}`) }
	for name, c := range map[string]struct {
		in     string
		refuse fault.Reason
	}{
		"values at the limit":       {in: array(20_000 - 7)},
		"values over the limit":     {array(20_000 - 6), fault.TooLarge},
		"400,000 elements":          {array(400_000), fault.TooLarge},
		"members at the limit":      {in: request(`"arguments":{` + members(1000) + `}`)},
		"members over the limit":    {request(`"arguments":{` + members(1001) + `}`), fault.TooLarge},
		"60,000 members":            {request(`"arguments":{` + members(60_000) + `}`), fault.TooLarge},
		"string at the limit":       {in: request(`"arguments":{"a":"` + strings.Repeat("x", 512<<10) + `"}`)},
		"string over the limit":     {request(`"arguments":{"a":"` + strings.Repeat("x", 512<<10+1) + `"}`), fault.TooLarge},
		"600,000 bytes of escapes":  {in: request(`"arguments":{"a":"` + strings.Repeat(`\u0041`, 100_000) + `"}`)},
		"name over the limit":       {request(`"arguments":{"` + strings.Repeat("x", 512<<10+1) + `":1}`), fault.TooLarge},
		"message over the limit":    {request(`"a":"` + strings.Repeat("x", 500<<10) + `","b":"` + strings.Repeat("x", 500<<10) + `"`), fault.TooLarge},
		"3 MB of escapes":           {request(`"a":"` + strings.Repeat(`\n`, 3<<19) + `"`), fault.TooLarge},
		"number of 40 characters":   {in: request(`"arguments":{"a":` + strings.Repeat("1", 40) + `}`)},
		"number of 41 characters":   {request(`"arguments":{"a":` + strings.Repeat("1", 41) + `}`), fault.InvalidParams},
		"fraction of 41 characters": {request(`"arguments":{"a":0.` + strings.Repeat("1", 39) + `}`), fault.InvalidParams},
		"number of 500,000 digits":  {request(`"arguments":{"a":` + strings.Repeat("1", 500_000) + `}`), fault.InvalidParams},
		"exponent of 4 digits":      {request(`"arguments":{"a":1e1000}`), fault.InvalidParams},
		"exponent of a billion":     {request(`"arguments":{"a":-1E+1000000000}`), fault.InvalidParams},
		"tiny exponent":             {request(`"arguments":{"a":1e-9999}`), fault.InvalidParams},
	} {
		t.Run(name, func(t *testing.T) {
			if c.refuse == "" {
				accept(t, c.in)
				return
			}
			refuse(t, c.in, c.refuse)
			body := []byte(c.in)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = mcp.Parse(body, mcp.Limits{})
			runtime.ReadMemStats(&after)
			if took := fastest(5, func() { _, _ = mcp.Parse(body, mcp.Limits{}) }); took > time.Second {
				t.Errorf("refusal took %v", took)
			}
			if grew := after.TotalAlloc - before.TotalAlloc; grew > max(4*uint64(len(body)), 256<<10) {
				t.Errorf("refusing %d bytes allocated %d", len(body), grew)
			}
		})
	}
}

// Numbers reach the tool as they were written.
func TestParseLeavesNumbersAlone(t *testing.T) {
	t.Parallel()
	for _, n := range []string{"9007199254740993", "-0", "0", "1e400", "1e-400", "1E+5", "0.1000", "18446744073709551616", "1e999"} {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			if m := accept(t, request(`"name":"a","arguments":{"n": `+n+` }`)); string(m.P.Arguments) != `{"n": `+n+` }` {
				t.Errorf("arguments became %s", m.P.Arguments)
			}
		})
	}
}

// A string is limited by its decoded length, however a client writes it.
func TestStringsAreBoundedWithoutEscapes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written string
		bytes   int
	}{
		"two bytes": {`\u0436`, 2}, "one byte": {`\u0041`, 1}, "three bytes": {`\u4f8b`, 3}, "a pair": {`\ud83d\ude00`, 4}, "a short escape": {`\n`, 1}, "a letter": {`ж`, 2}, "ASCII": {`a`, 1},
	} {
		in := []byte(request(`"name":"a","arguments":{"a":"` + strings.Repeat(c.written, 100) + `"}`))
		if _, err := mcp.Parse(in, mcp.Limits{StringBytes: 100 * c.bytes}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := mcp.Parse(in, mcp.Limits{StringBytes: 100*c.bytes - 1}); !fault.Is(err, fault.TooLarge) {
			t.Errorf("%s beyond the bound: %v", name, err)
		}
	}
}

func TestLimitsAreSettable(t *testing.T) {
	t.Parallel()
	in := []byte(request(`"name":"a","arguments":{"a":[1,2],"b":"xyz","c":1234}`))
	for name, lim := range map[string]mcp.Limits{
		"bytes": {Bytes: 20}, "depth": {Depth: 3}, "values": {Values: 8}, "members": {Members: 2},
		"number": {NumberBytes: 3}, "string": {StringBytes: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if m, err := mcp.Parse(in, lim); err == nil {
				t.Errorf("accepted %s", m.Method)
			}
		})
	}
	if _, err := mcp.Parse(in, mcp.DefaultLimits()); err != nil {
		t.Error(err)
	}
	if _, err := mcp.Parse([]byte(`{"jsonrpc":"2.0","id":"abc","method":"ping"}`), mcp.Limits{IDBytes: 2}); !fault.Is(err, fault.InvalidRequest) {
		t.Errorf("id limit: %v", err)
	}
	for name, lim := range map[string]mcp.Limits{"bytes": {Bytes: 20}, "depth": {Depth: 1}} {
		if err := mcp.Valid([]byte(`{"a":[1,2,3,4,5,6,7,8]}`), lim); err == nil {
			t.Errorf("Valid ignores its limit of %s", name)
		}
	}
	for _, v := range []string{`1`, ` "a" `, `[]`, `{"a":{}}`, `null`} {
		if err := mcp.Valid([]byte(v), mcp.Limits{}); err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
}
