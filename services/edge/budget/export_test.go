package budget

// Reserved is the sum of everything that counts calls under way.
func (b *Budget) Reserved() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held.All() + b.expectedAt.All() + b.expectedBy.All() + b.waiting.All()
}
