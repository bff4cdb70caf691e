package budget

// Remembered is how many sources have known sizes, and how many parties of them.
func (b *Budget) Remembered() (sources, parties int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.sources {
		parties += len(m.party)
	}
	return len(b.sources), parties
}
