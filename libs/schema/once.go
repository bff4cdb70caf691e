package schema

import (
	"crypto/sha256"
	"runtime"
	"sync"
	"weak"
)

// source identifies the input of a compilation: the digest of the schema, and its
// purpose.
type source struct {
	digest [sha256.Size]byte
	input  bool
}

// held holds the compiled schemas that are in use. If a service and an edge share a process,
// both use the schemas of its tools.
var held = struct {
	sync.Mutex
	schemas map[source]weak.Pointer[Schema]
}{schemas: map[source]weak.Pointer[Schema]{}}

// once compiles a schema, unless a compiled one is in use.
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

// forget removes a schema that is no longer in use.
func forget(from source) {
	held.Lock()
	defer held.Unlock()
	if held.schemas[from].Value() == nil { // and not compiled again meanwhile
		delete(held.schemas, from)
	}
}
