package repo

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
)

const (
	// maxIndexName is the most bytes of a path in an index, maxIndexDepth the most
	// elements.
	maxIndexName  = 4096
	maxIndexDepth = 128
	// maxIndexPaths is the most bytes of all paths, counted with the directories on
	// the way, each of which go-git keeps with its own path.
	maxIndexPaths = 256 << 20

	indexFixed    = 62
	indexExtended = 0x4000
)

var (
	errIndex = errors.New("the index is damaged")
	errPaths = errors.New("the index has paths longer or deeper than are read here")
)

// fits checks that the paths of an index do not fill the memory: a path of version 4
// is the one before with another end, so that a small file may hold a great deal.
func fits(f io.ReadSeeker) error {
	r := bufio.NewReaderSize(f, 64<<10)
	var header struct {
		Signature      [4]byte
		Version, Count uint32
	}
	if err := binary.Read(r, binary.BigEndian, &header); err != nil {
		return errIndex
	}
	var name []byte
	for all := 0; header.Count > 0; header.Count-- {
		var err error
		if name, err = nextName(r, header.Version, name); err != nil {
			return err
		}
		depth := bytes.Count(name, []byte("/")) + 1
		if all += depth * len(name); depth > maxIndexDepth || all > maxIndexPaths {
			return errPaths
		}
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// leadsDown says whether a path of an index leads down, element by element. Others, such as an
// absolute one, would be climbed without end.
func leadsDown(p string) bool {
	for e := range strings.SplitSeq(p, "/") {
		if e == "" || e == "." || e == ".." {
			return false
		}
	}
	return !strings.Contains(p, "\x00")
}

// nextName reads an entry, and returns its path. before is the path of the one before.
func nextName(r *bufio.Reader, version uint32, before []byte) ([]byte, error) {
	var fixed [indexFixed]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return nil, errIndex
	}
	size := indexFixed
	if binary.BigEndian.Uint16(fixed[indexFixed-2:])&indexExtended != 0 {
		size += 2
		_, _ = r.Discard(2) // its end is met below
	}
	keep := 0
	if version == 4 {
		drop, err := offset(r)
		if err != nil || drop > uint64(len(before)) {
			return nil, errIndex
		}
		keep = len(before) - int(drop)
	}
	end, err := r.ReadSlice(0)
	switch {
	case errors.Is(err, bufio.ErrBufferFull), keep+len(end) > maxIndexName:
		return nil, errPaths
	case err != nil:
		return nil, errIndex
	}
	size += len(end)
	name := append(before[:keep], end[:len(end)-1]...)
	if version != 4 {
		_, _ = r.Discard((8 - size%8) % 8) // filled up to a multiple of 8 bytes
	}
	return name, nil
}

// offset reads a number of git's: seven bits a byte, the highest first, each but the
// last with one added.
func offset(r io.ByteReader) (n uint64, err error) {
	for i := range 5 {
		b, err := r.ReadByte()
		if err != nil {
			return 0, err
		}
		if i > 0 {
			n++
		}
		if n = n<<7 | uint64(b&0x7f); b < 0x80 {
			return n, nil
		}
	}
	return 0, errIndex
}
