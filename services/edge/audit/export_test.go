package audit

import "log/slog"

// BreakSpool makes writes to the spool of calls with effects fail.
func (t *Trail) BreakSpool() { _ = t.ends.file.Close() }

// OnSync makes f run in place of each sync of the spool of calls with effects. Its
// argument is the real sync.
func (t *Trail) OnSync(f func(sync func() error) error) {
	t.ends.mu.Lock()
	defer t.ends.mu.Unlock()
	sync := t.ends.flush
	t.ends.flush = func() error { return f(sync) }
}

// SpoolFile opens a spool in a directory, and returns the events of its file. add appends
// events that are synced, and leave closes the file and keeps it.
func SpoolFile(dir string) (events [][]byte, add func(...[]byte) error, leave func(), err error) {
	s, err := openSpool(dir, DefaultSpoolBytes, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, nil, nil, err
	}
	for s.start < s.end {
		some, end, err := s.read(group, 1<<30)
		if err != nil {
			return nil, nil, nil, err
		}
		events = append(events, some...)
		s.start = end
	}
	return events, func(e ...[]byte) error { return s.add(true, 2, e...) }, s.close, nil
}
