package audit

import (
	"slices"

	"github.com/busbar-mcp/busbar/libs/share"
)

// queue holds the records that wait in memory. They are taken from each account in turn. When it is
// full, the account with the most loses its newest record, so that an account that floods it hides
// nothing of others.
type queue struct {
	share.Queue[item]
	lost uint64
}

func newQueue() *queue { return &queue{Queue: share.Queue[item]{Newest: true}} }

// item is a record that waits.
type item struct {
	account string
	record  []byte // an event, marshalled
}

// size is roughly what an item takes in memory.
func (i item) size() int { return len(i.record) + 64 }

// stored is the most that a record takes in the stream, not counting its group.
func stored(record []byte) int { return len(record) + 200 }

// put adds a record. If the queue is full, it drops some.
func (q *queue) put(i item) {
	q.account(i).Add(&share.Item[item]{Value: i, Size: int64(i.size())})
	for all := &q.All; all.Items > maxQueued || all.Size > maxQueuedBytes; q.lost++ {
		all.Goes().Remove()
	}
}

func (q *queue) account(i item) *share.Account[item] { return q.Of(share.Name{Account: i.account}) }

// take removes up to n records, and up to a number of bytes in the stream.
func (q *queue) take(n, bytes int) (batch []item) {
	for q.All.Items > 0 && len(batch) < n && bytes > 0 {
		for account := range q.Turns() {
			i := account.Oldest
			account.Behind()
			i.Remove()
			batch, bytes = append(batch, i.Value), bytes-stored(i.Value.record)
			break
		}
	}
	return batch
}

// back puts back the records that were taken last.
func (q *queue) back(batch []item) {
	for _, i := range slices.Backward(batch) {
		q.account(i).PutBack(&share.Item[item]{Value: i, Size: int64(i.size())})
	}
}
