package repo

import (
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Line is a line of a file with the commit that it comes from.
type Line struct {
	Line   int       `json:"line"`
	Commit string    `json:"commit"`
	Author string    `json:"author"`
	Time   time.Time `json:"time"`
	Text   string    `json:"text"`
}

// Blame reads the whole history of a file, so the file's size is bounded.
const (
	//limit:files a file for `git_blame` | the tool fails
	maxBlame      = 512 << 10
	maxBlameLines = 10_000
	// maxVersions is how many bytes of versions of the file are kept at a time.
	maxVersions = 16 << 20
)

// Blame returns the commit that each line comes from, for at most limit lines from line first. more is set
// if there are others.
func (r *Repo) Blame(revision, p string, first, limit int) (all []Line, more bool, err error) {
	c, err := r.commit(revision)
	if err != nil {
		return nil, false, err
	}
	h, err := r.history()
	if err != nil {
		return nil, false, explain(err)
	}
	begin, err := h.version(c, p)
	if err != nil {
		return nil, false, explain(err)
	}
	if !begin.mode.IsFile() {
		return nil, false, refuse("the file is not in that commit")
	}
	data, err := r.store.raw(plumbing.BlobObject, begin.hash)
	if err != nil {
		return nil, false, explain(err)
	}
	if len(data) > maxBlame {
		return nil, false, refuse("the file is larger than %d KiB, too large to find the origin of its lines", maxBlame>>10)
	}
	text := slices.Collect(strings.Lines(string(data)))
	if len(text) > maxBlameLines {
		return nil, false, refuse("the file has more than %d lines, too many to find their origins", maxBlameLines)
	}
	b := &blame{history: h, path: p, seed: maphash.MakeSeed(), waiting: map[plumbing.Hash]*suspect{}, origin: make([]*object.Commit, len(text))}
	last := min(len(text), first-1+limit)
	var wanted []pair
	for i := first - 1; i < last; i++ {
		wanted = append(wanted, pair{i, i})
	}
	if err := b.run(begin, wanted); err != nil {
		return nil, false, explain(err)
	}
	all = []Line{}
	for _, w := range wanted {
		o := b.origin[w.a]
		when := o.Author.When.UTC()
		if y := when.Year(); y < 0 || y > 9999 { // JSON has no such year
			when = time.Time{}
		}
		all = append(all, Line{w.a + 1, o.Hash.String(), line(o.Author.Name), when, utf8Of(strings.TrimSuffix(text[w.a], "\n"), 2000)})
	}
	return all, last < len(text), nil
}

// blame moves lines from a commit to the parents that have them too, until no parent has them.
type blame struct {
	*history
	path string
	seed maphash.Seed
	// next holds the commits with pending lines; waiting is the same by hash.
	next    newest[*suspect]
	waiting map[plumbing.Hash]*suspect
	// origin is the commit of each line.
	origin []*object.Commit
	// versions holds the lines of versions of the file, by hash; size is their total in bytes.
	versions map[plumbing.Hash][]uint64
	size     int
	match    matcher
}

// suspect is a version with lines that come from it or from an earlier one. a is a line's number in the
// requested file, b in this version.
type suspect struct {
	version
	lines []pair
}

func (b *blame) run(begin version, lines []pair) error {
	b.hand(begin, lines)
	for b.next.Len() > 0 {
		s := b.next.take()
		delete(b.waiting, s.Hash)
		parents, err := b.parents(s.Commit, b.path)
		if err != nil {
			return err
		}
		if same, ok := sameAs(s.version, parents); ok {
			b.hand(same, s.lines)
			continue
		}
		for _, p := range parents {
			if p.mode.IsFile() && len(s.lines) > 0 {
				if s.lines, err = b.pass(s, p); err != nil {
					return err
				}
			}
		}
		for _, l := range s.lines {
			b.origin[l.a] = s.Commit
		}
	}
	return nil
}

// pass moves the lines that a parent also has to that parent, and returns the others.
func (b *blame) pass(s *suspect, to version) (left []pair, err error) {
	now, err := b.linesOf(s.hash)
	if err != nil {
		return nil, err
	}
	before, err := b.linesOf(to.hash)
	if err != nil {
		return nil, err
	}
	same := b.match.lines(before, now)
	slices.SortFunc(s.lines, func(x, y pair) int { return x.b - y.b })
	var handed []pair
	for _, l := range s.lines {
		for len(same) > 0 && same[0].b < l.b {
			same = same[1:]
		}
		if len(same) > 0 && same[0].b == l.b {
			handed = append(handed, pair{l.a, same[0].a})
		} else {
			left = append(left, l)
		}
	}
	b.hand(to, handed)
	return left, nil
}

// hand adds lines to the pending ones of a version.
func (b *blame) hand(to version, lines []pair) {
	if len(lines) == 0 {
		return
	}
	if s := b.waiting[to.Hash]; s != nil {
		s.lines = append(s.lines, lines...)
		return
	}
	s := &suspect{to, lines}
	b.waiting[to.Hash] = s
	b.next.add(s, to.Commit)
}

// linesOf returns the lines of a version of the file, each as its hash.
func (b *blame) linesOf(hash plumbing.Hash) ([]uint64, error) {
	if lines, ok := b.versions[hash]; ok {
		return lines, nil
	}
	data, err := b.r.store.raw(plumbing.BlobObject, hash)
	if err != nil {
		return nil, err
	}
	var lines []uint64
	for l := range strings.Lines(string(data)) {
		lines = append(lines, maphash.String(b.seed, l))
	}
	if b.size += 8 * len(lines); b.versions == nil || b.size > maxVersions {
		b.versions, b.size = map[plumbing.Hash][]uint64{}, 8*len(lines)
	}
	b.versions[hash] = lines
	return lines, nil
}
