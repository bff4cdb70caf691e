package schema

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"
)

// source is what a schema was compiled from, by its digest, and for what.
type source struct {
	digest [sha256.Size]byte
	input  bool
}

// held are the compiled schemas that somebody has. Where a service and an edge are one
// process, both have those of its tools.
var held = struct {
	sync.Mutex
	schemas map[source]weak.Pointer[Schema]
}{schemas: map[source]weak.Pointer[Schema]{}}

// once compiles a schema, unless somebody has it.
func once(raw []byte, input bool, compile func([]byte) (*Schema, error)) (*Schema, error) {
	from := source{sha256.Sum256(raw), input}
	held.Lock()
	s := held.schemas[from].Value()
	held.Unlock()
	if s != nil {
		return s, nil
	}
	s, err := compile(raw)
	if err != nil {
		return nil, err
	}
	held.Lock()
	held.schemas[from] = weak.Make(s)
	held.Unlock()
	runtime.AddCleanup(s, forget, from)
	return s, nil
}

// forget takes a schema off that nobody has any more.
func forget(from source) {
	held.Lock()
	defer held.Unlock()
	if held.schemas[from].Value() == nil { // and not compiled once more meanwhile
		delete(held.schemas, from)
	}
}
