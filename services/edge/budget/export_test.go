package budget

// Remembered is the number of sources with known sizes, and of their parties.
func (b *Budget) Remembered() (sources, parties int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.sources {
		parties += len(m.party)
	}
	return len(b.sources), parties
}

// Reserved is how many of the accounts that count calls under way are not empty.
func (b *Budget) Reserved() (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, size := range []int64{b.held, b.expected, int64(b.waiting)} {
		if size != 0 {
			n++
		}
	}
	return n + len(b.parties) + len(b.expectedAt) + len(b.expectedBy) + len(b.waitingOf)
}
