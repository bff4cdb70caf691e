//go:build profiled

// This file is laid over the main package of a program that is profiled (go build -overlay):
// what is shipped has no such door. It opens one at the Unix socket of BENCH_PROFILE:
//
//	/begin    begins a profile of the processor
//	/end      ends it, and answers with it
//	/allocs   answers with all that was allocated so far
//	/rest     gives back all memory that is not in use
package main

import (
	"bytes"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
)

func init() {
	// Set before most is allocated: how many bytes there are between two that are sampled.
	if rate, err := strconv.Atoi(os.Getenv("BENCH_PROFILE_RATE")); err == nil {
		runtime.MemProfileRate = rate
	}
	l, err := net.Listen("unix", os.Getenv("BENCH_PROFILE"))
	if err != nil {
		log.Fatalln("BENCH_PROFILE:", err)
	}
	var cpu bytes.Buffer
	mux := http.NewServeMux()
	mux.HandleFunc("/begin", func(w http.ResponseWriter, _ *http.Request) {
		cpu.Reset()
		if err := pprof.StartCPUProfile(&cpu); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
		}
	})
	mux.HandleFunc("/end", func(w http.ResponseWriter, _ *http.Request) {
		pprof.StopCPUProfile()
		_, _ = w.Write(cpu.Bytes())
	})
	mux.HandleFunc("/allocs", func(w http.ResponseWriter, _ *http.Request) {
		runtime.GC() // a profile has what was allocated before the last collection
		_ = pprof.Lookup("allocs").WriteTo(w, 0)
	})
	mux.HandleFunc("/rest", func(http.ResponseWriter, *http.Request) { debug.FreeOSMemory() })
	go func() { log.Fatalln(http.Serve(l, mux)) }()
}
