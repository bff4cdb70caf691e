package audit

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"
)

// maxRecord bounds an event on disk; what claims to be larger is damage.
const maxRecord = 1 << 20

const spoolSuffix = ".spool"

var errSpoolFull = errors.New("the audit spool is full")

// spool is a file of events that wait. It belongs to one edge, which holds its
// lock; the file of an edge that died is taken over. Each record is its length
// and its CRC-32, both of four bytes, and the event, marshalled.
type spool struct {
	limit int64
	lock  *flock.Flock

	mu    sync.Mutex
	file  *os.File
	start int64 // what is before was sent
	end   int64
}

// openSpool takes the files of dir that nobody has as one.
func openSpool(dir string, limit int64) (*spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit spool: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+spoolSuffix))
	if err != nil {
		return nil, fmt.Errorf("audit spool: %w", err)
	}
	var s *spool
	for _, path := range left {
		if s, err = s.join(path, limit); err != nil {
			return nil, err
		}
	}
	if s == nil {
		return s.join(filepath.Join(dir, rand.Text()+spoolSuffix), limit)
	}
	return s, nil
}

// join is a spool that has what is in a file too, unless another edge has that.
// Of none it is the file's. After an error it is closed.
func (s *spool) join(path string, limit int64) (*spool, error) {
	other, err := takeSpool(path, limit)
	switch {
	case err != nil:
	case other == nil:
		return s, nil
	case s == nil:
		return other, nil
	default:
		err = s.adopt(other)
		other.close()
	}
	if err == nil {
		return s, nil
	}
	if s != nil {
		s.close()
	}
	return nil, fmt.Errorf("audit spool: %w", err)
}

// takeSpool opens a file; nil when another edge has it.
func takeSpool(path string, limit int64) (*spool, error) {
	s := &spool{limit: limit, lock: flock.New(path)}
	held, err := s.lock.TryLock()
	if err != nil || !held {
		return nil, err
	}
	if s.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		s.close()
		return nil, err
	}
	// The last record may be half of one.
	if s.end, err = wholeRecords(s.file); err == nil {
		err = s.file.Truncate(s.end)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// wholeRecords is where the last whole record ends.
func wholeRecords(file *os.File) (end int64, err error) {
	in := bufio.NewReader(file)
	for {
		_, n, err := record(in)
		if errors.Is(err, errDamaged) || errors.Is(err, io.EOF) {
			return end, nil
		}
		if err != nil {
			return 0, err
		}
		end += n
	}
}

// adopt adds what another spool holds, and empties that.
func (s *spool) adopt(other *spool) error {
	n, err := io.Copy(io.NewOffsetWriter(s.file, s.end), io.NewSectionReader(other.file, 0, other.end))
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		return err
	}
	s.end += n
	other.drop(other.end)
	return nil
}

// add appends events, all or none, and has them on the disk before it returns
// if sync.
func (s *spool) add(sync bool, events ...[]byte) error {
	var data []byte
	for _, body := range events {
		data = binary.BigEndian.AppendUint32(data, uint32(len(body)))
		data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(body))
		data = append(data, body...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end+int64(len(data)) > s.limit {
		return errSpoolFull
	}
	_, err := s.file.WriteAt(data, s.end)
	if err == nil && sync {
		err = s.file.Sync()
	}
	if err != nil {
		return errors.Join(err, s.file.Truncate(s.end))
	}
	s.end += int64(len(data))
	return nil
}

// read returns up to n events that wait, and where they end. An error means that
// what is behind them is lost; end is then that of the file.
func (s *spool) read(n int) (events [][]byte, end int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := bufio.NewReader(io.NewSectionReader(s.file, s.start, s.end-s.start))
	end = s.start
	for len(events) < n && end < s.end {
		e, size, err := record(in)
		if err != nil {
			return events, s.end, err
		}
		events, end = append(events, e), end+size
	}
	return events, end, nil
}

// drop forgets what is before end, and reports whether nothing waits any more.
func (s *spool) drop(end int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start = end; s.start < s.end {
		return false
	}
	if s.file.Truncate(0) == nil {
		s.start, s.end = 0, 0
	}
	return true
}

// waiting is how many bytes of events wait.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end - s.start
}

// close leaves the file to whoever takes it next.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	_ = s.lock.Unlock()
}

var errDamaged = errors.New("a record of the spool is damaged")

// record reads a record: its event, and how many bytes it has.
func record(in io.Reader) ([]byte, int64, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errDamaged
		}
		return nil, 0, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size > maxRecord {
		return nil, 0, errDamaged
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(in, body); err != nil {
		return nil, 0, errors.Join(errDamaged, err)
	}
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(head[4:]) {
		return nil, 0, errDamaged
	}
	return body, int64(len(head)) + int64(size), nil
}
