package audit

import "slices"

// queue holds the records that wait in memory: one line per account, from which they are
// taken in turn. When it is full, the account with the most loses its youngest record, so
// that an account that floods it hides nothing of others.
type queue struct {
	lines map[string]*line
	turns []string // accounts, the next one first
	n     int
	bytes int
	lost  uint64
}

type line struct {
	items []item
	bytes int
}

// item is a record that waits.
type item struct {
	account string
	record  []byte // an event, marshalled
}

// size is roughly what an item takes in memory.
func (i item) size() int { return len(i.record) + 64 }

// stored is the most that a record takes in the stream, not counting its group.
func stored(record []byte) int { return len(record) + 200 }

// put adds a record. If the queue is full, it drops one.
func (q *queue) put(i item) {
	for q.n >= maxQueued || q.bytes+i.size() > maxQueuedBytes {
		longest := i.account
		// An account that exceeds its share makes room itself, so no search is needed.
		if own := q.lines[i.account]; own == nil || own.bytes*len(q.lines) <= q.bytes {
			for account, l := range q.lines {
				if now := q.lines[longest]; now == nil || l.bytes > now.bytes {
					longest = account
				}
			}
		}
		q.lost++
		if longest == i.account {
			return
		}
		q.dropLast(longest)
	}
	l := q.line(i.account)
	l.items = append(l.items, i)
	q.count(l, i, 1)
}

func (q *queue) line(account string) *line {
	l := q.lines[account]
	if l == nil {
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		l = &line{}
		q.lines[account] = l
		q.turns = append(q.turns, account)
	}
	return l
}

func (q *queue) count(l *line, i item, sign int) {
	l.bytes += sign * i.size()
	q.bytes += sign * i.size()
	q.n += sign
}

func (q *queue) dropLast(account string) {
	l := q.lines[account]
	last := l.items[len(l.items)-1]
	l.items = l.items[:len(l.items)-1]
	q.count(l, last, -1)
	if len(l.items) == 0 {
		delete(q.lines, account)
		q.turns = slices.DeleteFunc(q.turns, func(p string) bool { return p == account })
	}
}

// take removes up to n records, and up to a number of bytes in the stream.
func (q *queue) take(n, bytes int) (batch []item) {
	for ; len(batch) < n && bytes > 0 && len(q.turns) > 0; bytes -= stored(batch[len(batch)-1].record) {
		account := q.turns[0]
		q.turns = q.turns[1:]
		l := q.lines[account]
		i := l.items[0]
		batch, l.items = append(batch, i), l.items[1:]
		q.count(l, i, -1)
		if len(l.items) == 0 {
			delete(q.lines, account)
			continue
		}
		q.turns = append(q.turns, account)
	}
	if len(q.turns) == 0 {
		q.turns = nil
	}
	return batch
}

// back puts back the records that were taken last.
func (q *queue) back(batch []item) {
	for n := len(batch) - 1; n >= 0; n-- {
		l := q.line(batch[n].account)
		l.items = append([]item{batch[n]}, l.items...)
		q.count(l, batch[n], 1)
	}
}
