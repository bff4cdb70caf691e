package share

// Sizes expects the size of the next result of a source from its recent ones. It remembers
// only sources whose results are large. The zero value knows nothing.
type Sizes[K comparable] struct {
	// Large is the largest size that is not large.
	Large int64

	sources map[K]*means
}

// maxSources bounds the sources that are remembered, and maxAccounts the accounts of each.
const (
	maxSources  = 1024
	maxAccounts = 64
)

// means are the mean sizes of all results of a source, and of each account's. Each new
// result counts half.
type means struct {
	all int64
	of  map[string]int64
}

// Of is the expected size of a source's next result for an account, and whether the source
// had large results lately. An account's own results predict it better than the results of
// others.
func (s *Sizes[K]) Of(source K, account string) (n int64, known bool) {
	m := s.sources[source]
	if m == nil {
		return 0, false
	}
	if own, known := m.of[account]; known {
		return own, true
	}
	return m.all, true
}

// Note counts a result.
func (s *Sizes[K]) Note(source K, account string, n int64) {
	m := s.sources[source]
	if m == nil {
		if n <= s.Large {
			return
		}
		if s.sources == nil {
			s.sources = map[K]*means{}
		}
		m = &means{all: n, of: map[string]int64{}}
		put(s.sources, source, m, maxSources)
	}
	if m.all = (m.all + n) / 2; m.all <= s.Large {
		delete(s.sources, source)
		return
	}
	own, known := m.of[account]
	if !known {
		own = n
	}
	put(m.of, account, (own+n)/2, maxAccounts)
}

// put sets an entry of a map. If there would be more than most, any other one is removed.
func put[K comparable, V any](m map[K]V, key K, value V, most int) {
	m[key] = value
	for other := range m {
		if len(m) <= most {
			return
		}
		if other != key {
			delete(m, other)
		}
	}
}
