package bus

import (
	"crypto/rand"
	"sync"
	"time"
)

// NewID returns an unguessable token of 26 letters and digits that fits a
// subject: of a task, an edge, an instance.
func NewID() string { return rand.Text() }

const (
	// letters are the letters of NewID, sorted by byte.
	letters = "234567ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	// timeLetters of a call's id are the time in milliseconds; randomLetters are random.
	timeLetters, randomLetters = 9, 17
)

// chance is a stock of random bytes: the kernel is asked once for 30 calls.
type chance struct {
	bytes [30 * randomLetters]byte
	used  int
}

var stock = sync.Pool{New: func() any { return &chance{used: len(chance{}.bytes)} }}

// NewCallID returns the id of a call: a token like NewID, but with 85 random bits and sorted by
// time. So databases store calls of the same time together, and write less.
func NewCallID() string {
	var id [timeLetters + randomLetters]byte
	ms := uint64(time.Now().UnixMilli())
	for i := timeLetters - 1; i >= 0; i-- {
		id[i] = letters[ms%32]
		ms /= 32
	}
	c := stock.Get().(*chance)
	if c.used == len(c.bytes) {
		_, _ = rand.Read(c.bytes[:]) // never fails
		c.used = 0
	}
	for i := range randomLetters {
		id[timeLetters+i] = letters[c.bytes[c.used+i]%32]
		c.bytes[c.used+i] = 0
	}
	c.used += randomLetters
	stock.Put(c)
	return string(id[:])
}
