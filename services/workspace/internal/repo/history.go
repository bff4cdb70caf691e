package repo

import (
	"container/heap"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// errTree says that a directory of a commit cannot be read.
var errTree = errors.New("a directory of the repository is damaged")

// maxKnown is the largest number of places that a history remembers.
const maxKnown = 100_000

// node is a commit's entry at a path; zero if it has none.
type node struct {
	mode filemode.FileMode
	hash plumbing.Hash
}

// history finds the commits that changed a path. It compares entries by hash alone: a directory shared by
// two commits is read once, and only directories on the way to the path are read.
type history struct {
	r     *Repo
	known map[spot]node
	// shallow lists the commits with parents outside this repository.
	shallow map[plumbing.Hash]bool
}

// spot is a path relative to a directory.
type spot struct {
	tree plumbing.Hash
	path string
}

func (r *Repo) history() (*history, error) {
	h := &history{r: r, known: map[spot]node{}, shallow: map[plumbing.Hash]bool{}}
	cut, err := r.git.Storer.Shallow()
	for _, c := range cut {
		h.shallow[c] = true
	}
	return h, err
}

// at returns a directory's entry at a path below it; "." is the directory itself.
func (h *history) at(tree plumbing.Hash, p string) (node, error) {
	n := node{filemode.Dir, tree}
	if p == "." {
		return n, nil
	}
	var way []spot
	for p != "" && n.mode == filemode.Dir {
		way = append(way, spot{n.hash, p})
		if known, ok := h.known[spot{n.hash, p}]; ok {
			n, p = known, ""
			break
		}
		name, rest, _ := strings.Cut(p, "/")
		data, err := h.r.store.raw(plumbing.TreeObject, n.hash)
		if err != nil {
			return n, err
		}
		if n, err = entryOf(data, name); err != nil {
			return n, err
		}
		p = rest
	}
	if p != "" {
		n = node{} // a file blocks the way
	}
	if len(h.known) > maxKnown {
		clear(h.known)
	}
	for _, s := range way {
		h.known[s] = n
	}
	return n, nil
}

// entryOf finds a name in the bytes of a tree.
func entryOf(data []byte, name string) (node, error) {
	for len(data) > 0 {
		found, n, rest, err := nextEntry(data)
		if err != nil || found == name {
			return n, err
		}
		data = rest
	}
	return node{}, nil
}

// version is a commit with its entry at a path.
type version struct {
	*object.Commit
	node
}

func (h *history) version(c *object.Commit, p string) (version, error) {
	n, err := h.at(c.TreeHash, p)
	return version{c, n}, err
}

// parents are the parents of a commit.
func (h *history) parents(c *object.Commit, p string) (all []version, err error) {
	if h.shallow[c.Hash] {
		return nil, nil
	}
	for _, hash := range c.ParentHashes {
		parent, err := h.r.git.CommitObject(hash)
		if err != nil {
			return nil, err
		}
		v, err := h.version(parent, p)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// sameAs returns the first parent with the same entry as a commit.
func sameAs(c version, parents []version) (version, bool) {
	for _, p := range parents {
		if p.node == c.node {
			return p, true
		}
	}
	return version{}, false
}

// Log lists commits back from a revision that changed something below a path. skip omits the first ones;
// more is set if there are others. As in git, if a commit has the same entry as one of its parents, the
// commit and the histories of its other parents are omitted.
func (r *Repo) Log(revision, below string, skip, limit int) (all []Commit, more bool, err error) {
	from, err := r.commit(revision)
	if err != nil {
		return nil, false, err
	}
	h, err := r.history()
	if err != nil {
		return nil, false, explain(err)
	}
	begin, err := h.version(from, below)
	if err != nil {
		return nil, false, explain(err)
	}
	all = []Commit{}
	var next newest[version]
	next.add(begin, begin.Commit)
	seen := map[plumbing.Hash]bool{from.Hash: true}
	for next.Len() > 0 {
		c := next.take()
		parents, err := h.parents(c.Commit, below)
		if err != nil {
			return nil, false, explain(err)
		}
		shown := below == "." || len(parents) > 0 || c.node != node{}
		if same, ok := sameAs(c, parents); ok && below != "." {
			shown, parents = false, []version{same}
		}
		for _, p := range parents {
			if !seen[p.Hash] {
				seen[p.Hash] = true
				next.add(p, p.Commit)
			}
		}
		switch {
		case !shown:
		case skip > 0:
			skip--
		case len(all) == limit:
			return all, true, nil
		default:
			all = append(all, describe(c.Commit))
		}
	}
	return all, false, nil
}

// newest is a queue that returns the value of the newest commit first. Commits of the same second come in
// the order in which they were added.
type newest[T any] struct {
	all   []queued[T]
	added int
}

type queued[T any] struct {
	value T
	time  int64
	turn  int
}

func (q *newest[T]) add(value T, c *object.Commit) {
	q.added++
	heap.Push(q, queued[T]{value, c.Committer.When.Unix(), q.added})
}

func (q *newest[T]) take() T { return heap.Pop(q).(queued[T]).value }

func (q *newest[T]) Len() int      { return len(q.all) }
func (q *newest[T]) Swap(i, j int) { q.all[i], q.all[j] = q.all[j], q.all[i] }
func (q *newest[T]) Push(x any)    { q.all = append(q.all, x.(queued[T])) }
func (q *newest[T]) Less(i, j int) bool {
	a, b := q.all[i], q.all[j]
	return a.time > b.time || a.time == b.time && a.turn < b.turn
}

func (q *newest[T]) Pop() any {
	last := q.all[len(q.all)-1]
	q.all = q.all[:len(q.all)-1]
	return last
}
