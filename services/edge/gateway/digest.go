package gateway

import (
	"crypto/sha256"
	"encoding/binary"
)

// digest stands for several parts. Each goes in with its length, so that no
// others have the same digest, whatever is in them.
func digest[P ~string | ~[]byte](parts ...P) []byte {
	h := sha256.New()
	for _, part := range parts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = h.Write([]byte(part))
	}
	return h.Sum(nil)
}
