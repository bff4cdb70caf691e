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
	// maxIndexName is the longest path of an index in bytes, maxIndexDepth its largest number
	// of elements.
	maxIndexName  = 4096
	maxIndexDepth = 128
	// maxIndexPaths is the total size of all paths in bytes, including the directories on
	// the way: go-git keeps each with its own path.
	maxIndexPaths = 256 << 20

	indexFixed    = 62
	indexExtended = 0x4000
)

var (
	errIndex = errors.New("the index is damaged")
	errPaths = errors.New("the index has paths that are too long or too deep")
)

// fits checks that the paths of an index do not fill the memory. In version 4 a path is the previous one
// with another end, so a small file may contain very many bytes of paths.
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

// leadsDown reports whether a path of an index leads down, element by element. Others, such as an absolute
// path, would be climbed forever.
func leadsDown(p string) bool {
	for e := range strings.SplitSeq(p, "/") {
		if e == "" || e == "." || e == ".." {
			return false
		}
	}
	return !strings.Contains(p, "\x00")
}

// nextName reads an entry and returns its path. before is the previous entry's path.
func nextName(r *bufio.Reader, version uint32, before []byte) ([]byte, error) {
	var fixed [indexFixed]byte
	if _, err := io.ReadFull(r, fixed[:]); err != nil {
		return nil, errIndex
	}
	size := indexFixed
	if binary.BigEndian.Uint16(fixed[indexFixed-2:])&indexExtended != 0 {
		size += 2
		_, _ = r.Discard(2) // a missing end is an error below
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
		_, _ = r.Discard((8 - size%8) % 8) // padded to a multiple of 8 bytes
	}
	return name, nil
}

// offset reads a number in git's encoding: seven bits a byte, the highest first, one added to each except
// the last.
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
