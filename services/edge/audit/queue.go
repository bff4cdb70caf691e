package audit

import "slices"

// queue is what waits in memory: a line for each payer, from which records are
// taken in turn. When it is full, the payer with the most loses its youngest
// record, so that who floods it hides nothing of others.
type queue struct {
	lines map[string]*line
	turns []string // payers, who is next first
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
	payer  string
	record []byte // an event, marshalled
}

// size is what an item takes in memory, about.
func (i item) size() int { return len(i.record) + 64 }

// stored is at most what a record takes in the stream, besides that of its group.
func stored(record []byte) int { return len(record) + 200 }

// put adds a record, and drops one where too much waits.
func (q *queue) put(i item) {
	for q.n >= maxQueued || q.bytes+i.size() > maxQueuedBytes {
		longest := i.payer
		// Who has more than his share makes room himself, which needs no search.
		if own := q.lines[i.payer]; own == nil || own.bytes*len(q.lines) <= q.bytes {
			for payer, l := range q.lines {
				if now := q.lines[longest]; now == nil || l.bytes > now.bytes {
					longest = payer
				}
			}
		}
		q.lost++
		if longest == i.payer {
			return
		}
		q.dropLast(longest)
	}
	l := q.line(i.payer)
	l.items = append(l.items, i)
	q.count(l, i, 1)
}

func (q *queue) line(payer string) *line {
	l := q.lines[payer]
	if l == nil {
		if q.lines == nil {
			q.lines = map[string]*line{}
		}
		l = &line{}
		q.lines[payer] = l
		q.turns = append(q.turns, payer)
	}
	return l
}

func (q *queue) count(l *line, i item, sign int) {
	l.bytes += sign * i.size()
	q.bytes += sign * i.size()
	q.n += sign
}

func (q *queue) dropLast(payer string) {
	l := q.lines[payer]
	last := l.items[len(l.items)-1]
	l.items = l.items[:len(l.items)-1]
	q.count(l, last, -1)
	if len(l.items) == 0 {
		delete(q.lines, payer)
		q.turns = slices.DeleteFunc(q.turns, func(p string) bool { return p == payer })
	}
}

// take removes up to n records, and no more after so many bytes of a stream.
func (q *queue) take(n, bytes int) (batch []item) {
	for ; len(batch) < n && bytes > 0 && len(q.turns) > 0; bytes -= stored(batch[len(batch)-1].record) {
		payer := q.turns[0]
		q.turns = q.turns[1:]
		l := q.lines[payer]
		i := l.items[0]
		batch, l.items = append(batch, i), l.items[1:]
		q.count(l, i, -1)
		if len(l.items) == 0 {
			delete(q.lines, payer)
			continue
		}
		q.turns = append(q.turns, payer)
	}
	if len(q.turns) == 0 {
		q.turns = nil
	}
	return batch
}

// back puts records back that were taken last.
func (q *queue) back(batch []item) {
	for n := len(batch) - 1; n >= 0; n-- {
		l := q.line(batch[n].payer)
		l.items = append([]item{batch[n]}, l.items...)
		q.count(l, batch[n], 1)
	}
}
