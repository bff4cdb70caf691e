package repo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"io"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	// maxChain is the largest number of deltas of an object, the same as git's. maxDeltas is the
	// largest total size of the deltas in bytes, maxWork the largest total size of all objects made
	// from them.
	maxChain  = 4095
	maxDeltas = 64 << 20
	maxWork   = 1 << 30

	hashSize  = 20
	indexHead = 8 + 256*4
	// indexEntry is the size of an index's entry for an object: hash, checksum, offset.
	indexEntry = hashSize + 4 + 4
	farOffset  = 1 << 31
)

var (
	errPack  = errors.New("a pack of the repository is damaged")
	errChain = errors.New("an object of the repository has more deltas than git makes")
)

// pack is a pack with its index, version 2. It trusts nothing that the two say about each other, about
// sizes or about bases: an object that is a delta of itself takes only a few bytes.
type pack struct {
	index, data         io.ReaderAt
	indexSize, dataSize int64
	// upTo counts the objects with a first hash byte of at most the index.
	upTo [256]uint32
	// buffer and z are reused for each object.
	buffer *bufio.Reader
	z      io.ReadCloser
}

// newPack reads the header of an index.
func newPack(index io.ReaderAt, indexSize int64, data io.ReaderAt, dataSize int64) (*pack, error) {
	p := &pack{index: index, indexSize: indexSize, data: data, dataSize: dataSize, buffer: bufio.NewReader(nil)}
	var head [indexHead]byte
	if _, err := index.ReadAt(head[:], 0); err != nil || string(head[:8]) != "\xfftOc\x00\x00\x00\x02" {
		return nil, errPack
	}
	for i := range p.upTo {
		p.upTo[i] = binary.BigEndian.Uint32(head[8+4*i:])
		if i > 0 && p.upTo[i] < p.upTo[i-1] {
			return nil, errPack
		}
	}
	if indexHead+int64(p.count())*indexEntry+2*hashSize > indexSize {
		return nil, errPack
	}
	return p, nil
}

func (p *pack) count() int { return int(p.upTo[255]) }

// from returns the number of the first object with a hash not less than a prefix.
func (p *pack) from(prefix []byte) (n int, err error) {
	low := 0
	if prefix[0] > 0 {
		low = int(p.upTo[prefix[0]-1])
	}
	n = low + sort.Search(int(p.upTo[prefix[0]])-low, func(i int) bool {
		h, e := p.hash(low + i)
		err = errors.Join(err, e)
		return bytes.Compare(h[:], prefix) >= 0
	})
	return n, err
}

func (p *pack) hash(n int) (h plumbing.Hash, err error) {
	_, err = p.index.ReadAt(h[:], indexHead+int64(n)*hashSize)
	return h, err
}

// find returns the offset of an object; ok is false if the pack lacks it.
func (p *pack) find(h plumbing.Hash) (at int64, ok bool, err error) {
	n, err := p.from(h[:])
	if err != nil || n >= p.count() {
		return 0, false, err
	}
	if found, err := p.hash(n); err != nil || found != h {
		return 0, false, err
	}
	var short [4]byte
	offsets := indexHead + int64(p.count())*(hashSize+4)
	if _, err := p.index.ReadAt(short[:], offsets+4*int64(n)); err != nil {
		return 0, false, err
	}
	at = int64(binary.BigEndian.Uint32(short[:]))
	if at < farOffset {
		return at, true, nil
	}
	var far [8]byte
	where := offsets + 4*int64(p.count()) + 8*(at-farOffset)
	if where+8 > p.indexSize-2*hashSize {
		return 0, false, errPack
	}
	_, err = p.index.ReadAt(far[:], where)
	return int64(binary.BigEndian.Uint64(far[:])), true, err
}

// entry is an object as stored in a pack: whole, or a delta.
type entry struct {
	kind plumbing.ObjectType
	data []byte
	// base is the offset of a delta's base object.
	base int64
}

// read reads the entry at an offset.
func (p *pack) read(at int64) (e entry, err error) {
	if at < 0 || at >= p.dataSize {
		return e, errPack
	}
	r := p.buffer
	r.Reset(io.NewSectionReader(p.data, at, p.dataSize-at))
	first, err := r.ReadByte()
	if err != nil {
		return e, errPack
	}
	e.kind = plumbing.ObjectType(first >> 4 & 7)
	size := uint64(first & 15)
	if first >= 0x80 {
		more, err := binary.ReadUvarint(r)
		if err != nil || more > maxObject {
			return e, errors.Join(errLarge, err)
		}
		size |= more << 4
	}
	if size > maxObject {
		return e, errLarge
	}
	switch e.kind {
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
	case plumbing.OFSDeltaObject:
		back, err := offset(r)
		if err != nil || back == 0 || back > uint64(at) {
			return e, errPack
		}
		e.base = at - int64(back)
	case plumbing.REFDeltaObject:
		var h plumbing.Hash
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return e, errPack
		}
		var ok bool
		if e.base, ok, err = p.find(h); err != nil || !ok {
			return e, errors.Join(errPack, err) // a pack must contain the bases of its deltas
		}
	default:
		return e, errPack
	}
	e.data, err = p.inflate(int64(size))
	return e, err
}

// inflate decompresses exactly size bytes.
func (p *pack) inflate(size int64) (_ []byte, err error) {
	if p.z == nil {
		p.z, err = zlib.NewReader(p.buffer)
	} else {
		err = p.z.(zlib.Resetter).Reset(p.buffer, nil)
	}
	if err != nil {
		return nil, errPack
	}
	var data bytes.Buffer
	if n, err := io.Copy(&data, io.LimitReader(p.z, size+1)); err != nil || n != size {
		return nil, errPack
	}
	return data.Bytes(), nil
}

// apply makes an object from its base and a delta. spent counts the bytes made so far.
func apply(base, delta []byte, spent *int) ([]byte, error) {
	of, n := binary.Uvarint(delta)
	if n <= 0 || of != uint64(len(base)) {
		return nil, errPack
	}
	size, m := binary.Uvarint(delta[n:])
	switch {
	case m <= 0:
		return nil, errPack
	case size > maxObject:
		return nil, errLarge
	}
	if *spent += int(size); *spent > maxWork {
		return nil, errChain
	}
	data, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, errPack
	}
	return data, nil
}
