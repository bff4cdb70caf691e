package repo

import (
	"strings"
	"testing"
)

// Whatever bytes a tree has, reading its entries ends, and every name that was read is also found.
func FuzzTree(f *testing.F) {
	hash := strings.Repeat("h", hashSize)
	f.Add([]byte("100644 a\x00" + hash + "40000 b\x00" + hash))
	f.Add([]byte("100644 a\x00short"))
	f.Add([]byte("9 a\x00" + hash))
	f.Add([]byte(" \x00" + hash))
	f.Fuzz(func(t *testing.T, data []byte) {
		for rest, met := data, map[string]bool{}; len(rest) > 0; {
			name, n, after, err := nextEntry(rest)
			if err != nil {
				return
			}
			if len(rest)-len(after) < hashSize+2 {
				t.Fatalf("%q: an entry of %d bytes", rest, len(rest)-len(after))
			}
			if found, err := entryOf(data, name); !met[name] && (err != nil || found != n) {
				t.Errorf("%q in %q: %v %v, want %v", name, data, found, err, n)
			}
			met[name], rest = true, after
		}
	})
}
