package repo

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
)

// Whatever bytes a pack and its index have, looking up an object ends within the limits.
func FuzzPack(f *testing.F) {
	head := append([]byte("\xfftOc\x00\x00\x00\x02"), make([]byte, 256*4)...)
	for i := range 256 {
		binary.BigEndian.PutUint32(head[8+4*i:], 1)
	}
	one := append(bytes.Clone(head), make([]byte, hashSize+4)...)
	one = append(binary.BigEndian.AppendUint32(one, 12), make([]byte, 2*hashSize)...)
	itself := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x7c"), make([]byte, hashSize)...)
	f.Add(one, append(itself, "x\x9c\x03\x00\x00\x00\x00\x01"...))
	f.Add(one, []byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x10x\x9c\x03\x00\x00\x00\x00\x01"))
	f.Add(head, []byte{})
	f.Fuzz(func(t *testing.T, index, data []byte) {
		p, err := newPack(bytes.NewReader(index), int64(len(index)), bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return
		}
		ps := &packs{ctx: context.Background(), all: []*pack{p}, made: map[place]entry{}}
		for n := range min(p.count(), 10) {
			h, err := p.hash(n)
			if err != nil {
				t.Fatalf("hash %d of %d: %v", n, p.count(), err)
			}
			o, err := ps.get(h)
			if err == nil && (len(o.data) > maxObject || o.kind.IsDelta()) {
				t.Errorf("%s is %s of %d bytes", h, o.kind, len(o.data))
			}
			if _, err := ps.beginning(h[:2], nil); err != nil {
				t.Logf("%s: %v", h, err)
			}
		}
	})
}
