// Package repo works on git repositories in a root, in this process and only through an os.Root. No other
// program runs, so a repository's configuration, hooks, filters or attributes cannot make one run. go-git
// reads references and the index, and writes. This package itself reads packs, histories and the state of
// the worktree, and does checkouts, in bounded time and memory. Start at Open; history.go and status.go
// have the two ideas that make it fast.
package repo

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

const (
	// maxObject is the largest object (file, directory or commit), in bytes.
	maxObject = 32 << 20
	// maxCache is how many bytes of a repository are kept in memory during one call.
	maxCache = 32 << 20
	// maxTrees is the total size of the directories of a commit and of the one it is
	// compared with, in bytes: some 500,000 files.
	maxTrees = 32 << 20
	// treeCost is added to the bytes of each tree.
	treeCost = 256
)

var (
	errLarge   = errors.New("an object of the repository is larger than 32 MiB")
	errTrees   = errors.New("a commit of the repository has more than 32 MiB of directories")
	errOutside = errors.New("outside")
	errNoFile  = errors.New("a file of the repository is a pipe, a device, a directory or too long")
)

// Repo is a repository with its worktree, for one call.
type Repo struct {
	git  *git.Repository
	tree *git.Worktree
	// top is the directory of the worktree.
	top root.Place
	// private is the .git directory of this worktree, common the shared one of all worktrees; the
	// same if there is only one.
	private, common *os.Root
	// commonAt is the path of common in the root.
	commonAt string
	opened   []*os.Root
	packs    *packs
	store    *bounded
	// staged is the index once it was read, nil before.
	staged *staged
}

// Open opens the repository that contains a place: it looks for .git there and in the directories above,
// up to the top that the caller may use. rel is the place relative to the worktree's top, "." for the top
// itself. Close the repository after use.
func Open(ctx context.Context, p root.Place) (r *Repo, rel string, err error) {
	top := p
	for {
		info, err := p.FS.Lstat(path.Join(top.Path, ".git"))
		if err == nil {
			r, err = open(ctx, top, info)
			rel, _ = top.Below(p)
			return r, rel, explain(err)
		}
		if top.Path == "." {
			return nil, "", refuse("%s is not in a git repository that you may use", p)
		}
		top.Path = path.Dir(top.Path)
	}
}

func open(ctx context.Context, top root.Place, dotGit fs.FileInfo) (_ *Repo, err error) {
	r := &Repo{top: top}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	at := path.Join(top.Path, ".git")
	switch {
	case dotGit.IsDir():
	case dotGit.Mode().IsRegular():
		if at, err = r.pointer(at, "gitdir: ", top.Path); err != nil {
			return nil, err
		}
	default:
		return nil, refuse("the .git of %s is neither a directory nor a file, so the repository cannot be opened", top)
	}
	if r.private, err = r.dir(at); err != nil {
		return nil, err
	}
	r.common, r.commonAt = r.private, at
	if _, err := r.private.Lstat("commondir"); err == nil {
		if r.commonAt, err = r.pointer(path.Join(at, "commondir"), "", at); err != nil {
			return nil, err
		}
		if r.common, err = r.dir(r.commonAt); err != nil {
			return nil, err
		}
	}
	return r, r.open(ctx)
}

// open opens the repository after its directories are known.
func (r *Repo) open(ctx context.Context) (err error) {
	var files billy.Filesystem = &confined{ctx: ctx, dir: r.private}
	if r.common != r.private {
		files = dotgit.NewRepositoryFilesystem(files, &confined{ctx: ctx, dir: r.common})
	}
	if r.packs, err = openPacks(ctx, r.common); err != nil {
		return err
	}
	r.store = &bounded{ctx: ctx, packs: r.packs, Storage: filesystem.NewStorageWithOptions(files, cache.NewObjectLRU(maxCache), filesystem.Options{
		LargeObjectThreshold: 1 << 20, AlternatesFS: nowhere(ctx, r.private),
	})}
	if r.git, err = git.Open(r.store, nowhere(ctx, r.private)); err != nil {
		return err
	}
	r.tree, err = r.git.Worktree()
	return err
}

// bounded is a store that returns nothing that would fill the memory, and nothing after its time is over.
type bounded struct {
	*filesystem.Storage
	ctx   context.Context
	packs *packs
	// trees counts the bytes of trees returned since the last commit. A tree that contains itself several
	// times on each level takes only a few objects, but has endless files.
	trees int64
}

func (b *bounded) EncodedObject(t plumbing.ObjectType, h plumbing.Hash) (plumbing.EncodedObject, error) {
	e, err := b.packed(h)
	var o plumbing.EncodedObject
	switch {
	case err == nil:
		memory := &plumbing.MemoryObject{}
		memory.SetType(e.kind)
		_, err = memory.Write(e.data)
		o = memory
	case errors.Is(err, plumbing.ErrObjectNotFound):
		o, err = b.Storage.EncodedObject(t, h)
	}
	if err != nil {
		return nil, err
	}
	return o, b.admit(t, o.Type(), o.Size())
}

// raw returns the content of an object; it must not be changed.
func (b *bounded) raw(t plumbing.ObjectType, h plumbing.Hash) ([]byte, error) {
	e, err := b.packed(h)
	if err == nil {
		return e.data, b.admit(t, e.kind, int64(len(e.data)))
	}
	if !errors.Is(err, plumbing.ErrObjectNotFound) {
		return nil, err
	}
	o, err := b.EncodedObject(t, h)
	if err != nil {
		return nil, err
	}
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, maxObject))
}

// packed returns an object of a pack, or plumbing.ErrObjectNotFound if it is in none.
func (b *bounded) packed(h plumbing.Hash) (entry, error) {
	if err := b.ctx.Err(); err != nil {
		return entry{}, err
	}
	return b.packs.get(h)
}

// admit returns an error if the found object is not the requested one, or not within the bounds.
func (b *bounded) admit(wanted, found plumbing.ObjectType, size int64) error {
	if wanted != plumbing.AnyObject && found != wanted {
		return plumbing.ErrObjectNotFound
	}
	switch found {
	case plumbing.CommitObject:
		b.trees = 0
	case plumbing.TreeObject:
		b.trees += size + treeCost
	}
	switch {
	case size > maxObject:
		return errLarge
	case b.trees > maxTrees:
		return errTrees
	}
	return nil
}

func (b *bounded) HasEncodedObject(h plumbing.Hash) error {
	if _, err := b.packs.find(h); !errors.Is(err, plumbing.ErrObjectNotFound) {
		return err
	}
	return b.Storage.HasEncodedObject(h)
}

func (b *bounded) EncodedObjectSize(h plumbing.Hash) (int64, error) {
	o, err := b.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

func (b *bounded) HashesWithPrefix(prefix []byte) ([]plumbing.Hash, error) {
	loose, err := b.Storage.HashesWithPrefix(prefix)
	if err != nil {
		return nil, err
	}
	return b.packs.beginning(prefix, loose)
}

// dir opens a directory of the root, and refuses a link that leads out of it.
func (r *Repo) dir(at string) (*os.Root, error) {
	d, err := r.top.FS.OpenRoot(at)
	if err == nil {
		r.opened = append(r.opened, d)
	}
	return d, err
}

// pointer reads a file that contains the path of a git directory, and returns it as a path in the root.
// from is the base of a relative path.
func (r *Repo) pointer(at, prefix, from string) (string, error) {
	text, err := small(r.top.FS, at)
	if err != nil {
		return "", err
	}
	to, ok := strings.CutPrefix(text, prefix)
	if !ok || to == "" || strings.ContainsAny(to, "\n\x00") {
		return "", refuse("the .git of %s does not contain the path of the repository", r.top)
	}
	if path.IsAbs(to) {
		if to, ok = r.top.Inside(to); !ok {
			return "", errOutside
		}
		return to, nil
	}
	to = path.Join(from, to)
	if to == ".." || strings.HasPrefix(to, "../") {
		return "", errOutside
	}
	return to, nil
}

// small returns the text of a small git file, without the last line end.
func small(dir *os.Root, p string) (string, error) {
	info, err := dir.Stat(p)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > 4096 {
		return "", errNoFile
	}
	f, err := dir.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, 4096))
	return strings.TrimRight(string(data), "\r\n"), err
}

// Close closes what Open opened.
func (r *Repo) Close() {
	for _, d := range r.opened {
		_ = d.Close()
	}
	if r.packs != nil {
		r.packs.close()
	}
}

// Place returns a path of the worktree as a place in the root.
func (r *Repo) Place(p string) root.Place { return r.top.In(p) }

// Top returns the directory of the worktree.
func (r *Repo) Top() root.Place { return r.top }

func unique() string { return strings.ToLower(rand.Text()[:16]) }

// errSaid marks an error that is already for the caller.
var errSaid = errors.New("said")

// refuse returns an error for the caller.
func refuse(format string, args ...any) error {
	return errors.Join(service.Errorf(format, args...), errSaid)
}

// explain turns an error of go-git into one for the caller.
func explain(err error) error {
	var words string
	var system *fs.PathError
	switch {
	case err == nil, errors.Is(err, errSaid), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, errOutside), strings.Contains(err.Error(), "path escapes from parent"):
		words = "the repository has parts that you may not use, through its .git file, a worktree or a symbolic link, so it cannot be opened"
	case errors.Is(err, errLarge), errors.Is(err, errTrees), errors.Is(err, errTree), errors.Is(err, errPaths), errors.Is(err, errNoFile), errors.Is(err, errPack), errors.Is(err, errPacks), errors.Is(err, errChain):
		words = err.Error() + ", so it cannot be read"
	case errors.Is(err, plumbing.ErrObjectNotFound):
		words = "an object of the repository is missing: it may be on a server, or in another repository (objects/info/alternates), which is not read"
	case errors.Is(err, plumbing.ErrReferenceNotFound):
		words = "the repository has no such branch, tag or commit; a new one has none at all"
	case errors.Is(err, fs.ErrPermission):
		words = "the repository has an entry that cannot be read or written here: a name that means .git, a link on the way, a pipe, or one without permission"
	case errors.As(err, &system):
		return err // for the log
	default:
		// go-git knows only paths inside the repository.
		words = "the repository is damaged, or uses an unsupported feature: " + line(err.Error())
	}
	return errors.Join(refuse("%s", words), err)
}
