package repo

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
)

const (
	packDir = "objects/pack"
	// maxPacks is the largest number of packs of a repository; git itself combines 50 into one.
	maxPacks = 256
	// maxPrefixed is the largest number of objects searched for an abbreviated hash.
	maxPrefixed = 1000
)

var errPacks = errors.New("the repository has more than 256 packs (git gc combines them)")

// packs are the packs of a repository, for one call. go-git sees none: it follows deltas until the stack
// is exhausted, and to any size.
type packs struct {
	ctx    context.Context
	all    []*pack
	opened []*os.File
	// made holds objects that may be the base of others, by place.
	made     map[place]entry
	madeSize int
}

type place struct {
	*pack
	at int64
}

// openPacks opens the packs of a .git directory. Close them after use.
func openPacks(ctx context.Context, dir *os.Root) (_ *packs, err error) {
	ps := &packs{ctx: ctx, made: map[place]entry{}}
	defer func() {
		if err != nil {
			ps.close()
		}
	}()
	entries, err := file.ReadDir(dir, packDir)
	if errors.Is(err, fs.ErrNotExist) {
		return ps, nil
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok {
			continue
		}
		if len(ps.all) == maxPacks {
			return nil, errPacks
		}
		data, dataSize, err := ps.open(dir, name+".pack")
		if errors.Is(err, fs.ErrNotExist) {
			continue // git removed the pack meanwhile
		}
		if err != nil {
			return nil, err
		}
		index, indexSize, err := ps.open(dir, name+".idx")
		if err != nil {
			return nil, err
		}
		p, err := newPack(index, indexSize, data, dataSize)
		if err != nil {
			return nil, err
		}
		ps.all = append(ps.all, p)
	}
	return ps, nil
}

func (ps *packs) open(dir *os.Root, name string) (*os.File, int64, error) {
	f, err := dir.OpenFile(path.Join(packDir, name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	ps.opened = append(ps.opened, f)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNoFile
	}
	if err != nil {
		return nil, 0, err
	}
	return f, info.Size(), nil
}

func (ps *packs) close() {
	for _, f := range ps.opened {
		_ = f.Close()
	}
}

// find returns the place of an object; a place without a pack if it is in none.
func (ps *packs) find(h plumbing.Hash) (place, error) {
	for _, p := range ps.all {
		if at, ok, err := p.find(h); err != nil || ok {
			return place{p, at}, err
		}
	}
	return place{}, plumbing.ErrObjectNotFound
}

// get returns an object, or plumbing.ErrObjectNotFound if it is in no pack. Its content must not be
// changed.
func (ps *packs) get(h plumbing.Hash) (entry, error) {
	at, err := ps.find(h)
	if err != nil {
		return entry{}, err
	}
	return ps.make(at)
}

// make reads an object and applies its deltas.
func (ps *packs) make(at place) (e entry, err error) {
	type step struct {
		place
		delta []byte
	}
	var chain []step
	met := map[int64]bool{}
	held, spent := 0, 0
	for {
		if err := ps.ctx.Err(); err != nil {
			return e, err
		}
		if made, ok := ps.made[at]; ok {
			e = made
			break
		}
		if e, err = at.read(at.at); err != nil {
			return e, err
		}
		if !e.kind.IsDelta() {
			ps.keep(at, e)
			break
		}
		switch held += len(e.data); {
		case met[at.at]:
			return e, errPack
		case held > maxDeltas, len(chain) == maxChain:
			return e, errChain
		}
		met[at.at] = true
		chain = append(chain, step{at, e.data})
		at.at = e.base
	}
	for i := len(chain) - 1; i >= 0; i-- {
		if err := ps.ctx.Err(); err != nil {
			return e, err
		}
		if e.data, err = apply(e.data, chain[i].delta, &spent); err != nil {
			return e, err
		}
		ps.keep(chain[i].place, e)
	}
	return e, nil
}

// keep remembers an object if it is small.
func (ps *packs) keep(at place, e entry) {
	if len(e.data) > maxCache/8 {
		return
	}
	if ps.madeSize += len(e.data); ps.madeSize > maxCache {
		clear(ps.made)
		ps.madeSize = len(e.data)
	}
	ps.made[at] = e
}

// beginning appends the hashes that begin with a prefix.
func (ps *packs) beginning(prefix []byte, hashes []plumbing.Hash) ([]plumbing.Hash, error) {
	if len(prefix) == 0 {
		return hashes, nil
	}
	for _, p := range ps.all {
		n, err := p.from(prefix)
		for ; err == nil && n < p.count() && len(hashes) < maxPrefixed; n++ {
			var h plumbing.Hash
			if h, err = p.hash(n); !bytes.HasPrefix(h[:], prefix) {
				break
			}
			hashes = append(hashes, h)
		}
		if err != nil {
			return nil, err
		}
	}
	return hashes, nil
}
