package audit

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/gofrs/flock"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
)

// maxRecord bounds an event on disk; a record that claims to be larger is damage.
const maxRecord = 1 << 20

const (
	spoolSuffix   = ".spool"
	damagedSuffix = ".damaged"
)

var (
	errSpoolFull = errors.New("the audit spool is full")
	errSpoolGone = errors.New("the file of the audit spool was removed or replaced")
)

// spool is a file of events that wait. It belongs to one edge, which holds its lock;
// another edge sends the events that a dead edge left. Each record is its length and its
// CRC-32, both of four bytes, and the marshalled event.
type spool struct {
	limit int64
	log   *slog.Logger

	mu    sync.Mutex
	lock  *flock.Flock
	file  *os.File
	flush func() error // file.Sync
	start int64        // the records before it were sent
	end   int64
	// failed is why a sync failed; nil if none did. Linux reports such an error once and
	// then counts the pages as written, so the result of a later sync does not hold for
	// the bytes that were in the file by then.
	failed error
	// added counts the writes of add. synced, which has its own lock, says how many of
	// them are on the disk.
	added   uint64
	syncing sync.Mutex
	synced  uint64
}

// openSpool takes a file of dir that no edge holds, or makes one.
func openSpool(dir string, limit int64, log *slog.Logger) (s *spool, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("audit spool: %w", err)
	}
	files, err := spoolFiles(dir)
	for s == nil && err == nil {
		if len(files) == 0 {
			s, err = takeSpool(filepath.Join(dir, rand.Text()+spoolSuffix), limit, log)
			break
		}
		var unread error
		if s, unread = takeSpool(files[0], limit, log); unread != nil {
			log.Error("an audit spool that nobody has cannot be taken; it is left as it is", "file", files[0], "error", unread)
		}
		files = files[1:]
	}
	if err != nil {
		return nil, fmt.Errorf("audit spool: %w", err)
	}
	return s, nil
}

func spoolFiles(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), spoolSuffix) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, err
}

// orphans takes, one after the other, the files in this directory that have waiting
// events and that no edge holds: their edges have died.
func (s *spool) orphans(visit func(*spool)) error {
	own := s.path()
	files, err := spoolFiles(filepath.Dir(own))
	for _, path := range files {
		// The files of living edges are mostly empty; leave their locks alone.
		if info, statErr := os.Stat(path); path == own || statErr != nil || info.Size() == 0 {
			continue
		}
		other, takeErr := takeSpool(path, s.limit, s.log)
		if takeErr != nil {
			err = errors.Join(err, takeErr)
		}
		if other != nil {
			visit(other)
			other.close()
		}
	}
	return err
}

// takeSpool opens a file; nil if another edge holds it.
func takeSpool(path string, limit int64, log *slog.Logger) (*spool, error) {
	s := &spool{limit: limit, log: log, lock: flock.New(path)}
	held, err := s.lock.TryLock()
	if err != nil || !held {
		return nil, err
	}
	if s.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600); err == nil {
		s.flush = s.file.Sync
		if s.end, err = wholeRecords(s.file); err == nil {
			err = s.setAside()
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	syncDir(filepath.Dir(path))
	return s, nil
}

// syncDir makes the names in a directory survive a loss of power. Some file systems
// cannot do that, and some need not. A real failure here shows again when an event is
// synced.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}

// setAside moves the bytes behind the last whole record to a file of their own, for
// people. Mostly they are a record that the machine was writing when it lost power, which
// no call has waited for.
func (s *spool) setAside() error {
	info, err := s.file.Stat()
	if err != nil || info.Size() <= s.end {
		return err
	}
	aside := s.lock.Path() + damagedSuffix
	out, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(s.file, s.end, info.Size()-s.end))
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	s.log.Error("the end of an audit spool is damaged; it is set aside, and its events are not in the trail", "file", aside, "bytes", info.Size()-s.end)
	return s.file.Truncate(s.end)
}

// wholeRecords is the position at which the last whole record ends.
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

// most is how large the file may be with an event of such a use. A call that begins
// leaves room for its own end, and for the ends of the calls that have begun.
func (s *spool) most(use auditlog.Use) int64 {
	if use == auditlog.Begin {
		return s.limit / 2
	}
	return s.limit
}

// largeEvent is the size of a large event: its arguments and its texts are cut.
const largeEvent = maxArguments + maxName + 2<<10

// admits returns an error if the file has no room for another event of such a use, or
// must keep the room free.
func (s *spool) admits(use auditlog.Use) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.unfit(); err != nil {
		return err
	}
	if s.end+largeEvent > s.most(use) {
		return errSpoolFull
	}
	return nil
}

// fit returns nil if added events survive this edge.
func (s *spool) fit() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unfit()
}

// unfit returns why added events would not survive this edge. The caller holds mu.
func (s *spool) unfit() error {
	switch {
	case s.failed != nil:
		return fmt.Errorf("the audit spool could not be synced, and is not trusted until its events are sent: %w", s.failed)
	case s.gone():
		return errSpoolGone
	}
	return nil
}

// gone reports whether the file is no longer where another edge, or the next one, looks
// for it.
func (s *spool) gone() bool {
	there, err := os.Stat(s.lock.Path())
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
	}
	own, err := s.file.Stat()
	return err == nil && !os.SameFile(there, own)
}

// renew takes another file in place of a lost one, once the lost one has no waiting
// events.
func (s *spool) renew() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone() || s.start < s.end {
		return nil
	}
	fresh, err := openSpool(filepath.Dir(s.lock.Path()), s.limit, s.log)
	if err != nil {
		return err
	}
	_ = s.file.Close()
	_ = s.lock.Unlock()
	s.lock, s.file, s.flush, s.start, s.end, s.failed = fresh.lock, fresh.file, fresh.flush, fresh.start, fresh.end, nil
	s.log.Warn("the file of the audit spool was removed or replaced; there is a new one", "file", s.lock.Path())
	return nil
}

func (s *spool) path() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lock.Path()
}

// add appends events, all or none. If sync is set, they are on the disk when it returns;
// after an error they may be.
func (s *spool) add(sync bool, use auditlog.Use, events ...[]byte) error {
	var data []byte
	for _, body := range events {
		data = binary.BigEndian.AppendUint32(data, uint32(len(body)))
		data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(body))
		data = append(data, body...)
	}
	added, err := s.write(data, s.most(use), sync)
	if err == nil && sync {
		err = s.sync(added)
	}
	return err
}

// write appends bytes, and returns the number of writes so far. If safe is set, they have
// to survive this edge.
func (s *spool) write(data []byte, most int64, safe bool) (added uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if safe {
		if err := s.unfit(); err != nil {
			return 0, err
		}
	}
	if s.end+int64(len(data)) > most {
		return 0, errSpoolFull
	}
	if _, err := s.file.WriteAt(data, s.end); err != nil {
		return 0, errors.Join(err, s.file.Truncate(s.end))
	}
	s.end += int64(len(data))
	s.added++
	return s.added, nil
}

// sync returns when everything that was added is on the disk. Callers that wait meanwhile
// share the next sync.
func (s *spool) sync(added uint64) error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	if s.synced >= added {
		return nil
	}
	s.mu.Lock()
	all, flush, err := s.added, s.flush, s.failed
	s.mu.Unlock()
	if err != nil {
		return err // the error of the sync that was to write it
	}
	if err := flush(); err != nil {
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
		return err
	}
	s.synced = all
	return nil
}

// read returns up to n waiting events, and up to a number of bytes in the stream, and the
// position at which they end. An error means that everything behind them is lost; end is
// then the end of the file.
func (s *spool) read(n, bytes int) (events [][]byte, end int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := bufio.NewReader(io.NewSectionReader(s.file, s.start, s.end-s.start))
	end = s.start
	for ; len(events) < n && end < s.end && bytes > 0; bytes -= stored(events[len(events)-1]) {
		e, size, err := record(in)
		if err != nil {
			return events, s.end, err
		}
		events, end = append(events, e), end+size
	}
	return events, end, nil
}

// drop forgets the events before end, and reports whether no event waits any more.
func (s *spool) drop(end int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.start = end; s.start < s.end {
		return false
	}
	if s.file.Truncate(0) == nil {
		s.start, s.end, s.failed = 0, 0, nil
	}
	return true
}

// waiting is how many bytes of events wait.
func (s *spool) waiting() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end - s.start
}

// close leaves the file to the next edge that takes it.
func (s *spool) close() {
	if s.file != nil {
		_ = s.file.Close()
	}
	_ = s.lock.Unlock()
}

var errDamaged = errors.New("a record of the spool is damaged")

// record reads a record: its event, and its size in bytes.
func record(in io.Reader) ([]byte, int64, error) {
	var head [8]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errDamaged
		}
		return nil, 0, err
	}
	size := binary.BigEndian.Uint32(head[:4])
	if size == 0 || size > maxRecord { // a file system may leave zeros behind
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
