package workspace_test

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packed is an object of a pack written by a test, whose hash, size and base may be false.
type packed struct {
	hash string
	kind byte
	// size is the size in its header; 0 means the size of data.
	size int
	// base is the hash of a delta's base (kind 7); back is the distance to the base in bytes (kind
	// 6).
	base string
	back int
	data []byte
}

const (
	kindCommit, kindBlob, kindOffset, kindReference = 1, 3, 6, 7
)

// packOf writes a pack with its index to a repository.
func packOf(t *testing.T, dir string, objects ...packed) {
	t.Helper()
	pack := bytes.NewBuffer(binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects))))
	var at []int
	z, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed)
	for _, o := range objects {
		at = append(at, pack.Len())
		size := o.size
		if size == 0 {
			size = len(o.data)
		}
		head := []byte{o.kind<<4 | byte(size&15)}
		for size >>= 4; size > 0; size >>= 7 {
			head[len(head)-1] |= 0x80
			head = append(head, byte(size&0x7f))
		}
		pack.Write(head)
		switch o.kind {
		case kindReference:
			id, _ := hex.DecodeString(o.base)
			pack.Write(id)
		case kindOffset:
			back := []byte{byte(o.back & 0x7f)}
			for n := o.back >> 7; n > 0; n >>= 7 {
				n--
				back = append([]byte{0x80 | byte(n&0x7f)}, back...)
			}
			pack.Write(back)
		}
		z.Reset(pack)
		_, _ = z.Write(o.data)
		_ = z.Close()
	}
	sum := sha1.Sum(pack.Bytes())
	pack.Write(sum[:])

	order := make([]int, len(objects))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(objects[a].hash, objects[b].hash) })
	index := bytes.NewBufferString("\xfftOc\x00\x00\x00\x02")
	var crcs, offsets []byte
	var firsts [256]uint32
	for _, o := range objects {
		id, _ := hex.DecodeString(o.hash)
		firsts[id[0]]++
	}
	n := uint32(0)
	for _, more := range firsts {
		n += more
		index.Write(binary.BigEndian.AppendUint32(nil, n))
	}
	for _, i := range order {
		id, _ := hex.DecodeString(objects[i].hash)
		index.Write(id)
		crcs = append(crcs, 0, 0, 0, 0)
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(at[i]))
	}
	index.Write(crcs)
	index.Write(offsets)
	index.Write(sum[:])
	own := sha1.Sum(index.Bytes())
	index.Write(own[:])
	name := fmt.Sprintf(".git/objects/pack/pack-%x", sum)
	put(t, dir, map[string]string{name + ".pack": pack.String(), name + ".idx": index.String()})
}

// delta is a delta for a base of a given size: copies of each bytes from the beginning of the base,
// followed by text.
func delta(base, copies, each int, text string) []byte {
	d := binary.AppendUvarint(binary.AppendUvarint(nil, uint64(base)), uint64(copies*each+len(text)))
	for range copies {
		d = append(d, 0xf0, byte(each), byte(each>>8), byte(each>>16))
	}
	for len(text) > 0 {
		n := min(len(text), 127)
		d = append(append(d, byte(n)), text[:n]...)
		text = text[n:]
	}
	return d
}

func named(text string) string { return fmt.Sprintf("%x", sha1.Sum([]byte(text))) }

// Whatever a pack claims about its objects, their sizes and their bases, a call ends with a message
// and the memory stays small.
func TestHostilePacks(t *testing.T) {
	top := t.TempDir()
	a, b, c := named("a"), named("b"), named("c")
	make := func(name string) (dir string) {
		dir = top + "/" + name
		put(t, dir, map[string]string{"a.txt": "mine\n", ".git/HEAD": "ref: refs/heads/main\n", ".git/refs/heads/main": a + "\n"})
		return dir
	}
	commit := "tree " + named("none") + "\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nmade\n"
	many := 1 << 20 / len(commit)
	for name, objects := range map[string][]packed{
		"itself":      {{hash: a, kind: kindReference, base: a, data: delta(10, 1, 10, "")}},
		"two":         {{hash: a, kind: kindReference, base: b, data: delta(10, 1, 10, "")}, {hash: b, kind: kindReference, base: a, data: delta(10, 1, 10, "")}},
		"large-cycle": {{hash: a, kind: kindReference, base: b, data: delta(1<<20, 1, 1<<20, "")}, {hash: b, kind: kindReference, base: a, data: delta(1<<20, 1, 1<<20, "")}},
		"thin":        {{hash: a, kind: kindReference, base: named("elsewhere"), data: delta(10, 1, 10, "")}},
		"thin-loose":  {{hash: a, kind: kindReference, base: "LOOSE", data: delta(len(commit), 1, len(commit), "")}},
		"no-offset":   {{hash: a, kind: kindOffset, back: 0, data: delta(10, 1, 10, "")}},
		"before":      {{hash: a, kind: kindOffset, back: 5000, data: delta(10, 1, 10, "")}},
		"header":      {{hash: a, kind: kindOffset, back: 12, data: delta(10, 1, 10, "")}},
		"said-more":   {{hash: a, kind: kindCommit, size: 1 << 40, data: []byte(commit)}},
		"said-less":   {{hash: a, kind: kindCommit, size: 10, data: bytes.Repeat([]byte(commit), 1000)}},
		"kind":        {{hash: a, kind: 5, data: []byte(commit)}},
		"no-delta":    {{hash: b, kind: kindCommit, data: []byte(commit)}, {hash: a, kind: kindReference, base: b, data: []byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")}},
		"empty-delta": {{hash: b, kind: kindCommit, data: []byte(commit)}, {hash: a, kind: kindReference, base: b}},
		"base-size":   {{hash: b, kind: kindCommit, data: []byte(commit)}, {hash: a, kind: kindReference, base: b, data: delta(1<<40, 1, 10, "")}},
		"target-size": {{hash: b, kind: kindCommit, data: []byte(commit)}, {hash: a, kind: kindReference, base: b, data: append(binary.AppendUvarint(binary.AppendUvarint(nil, uint64(len(commit))), 1<<40), 0x90, 10)}},
		// 4 KiB of a delta expand to 1 GiB; the next delta uses the beginning of that.
		"growing": {
			{hash: b, kind: kindCommit, data: bytes.Repeat([]byte(commit), many)},
			{hash: c, kind: kindReference, base: b, data: delta(many*len(commit), 1024, many*len(commit), "")},
			{hash: a, kind: kindReference, base: c, data: delta(1024*many*len(commit), 1, len(commit), "")},
		},
		"zeros": {
			{hash: b, kind: kindBlob, data: bytes.Repeat([]byte{0}, 33<<20)},
			{hash: a, kind: kindReference, base: b, data: delta(33<<20, 1, 100, "")},
		},
	} {
		dir := make(name)
		for i := range objects {
			if objects[i].base == "LOOSE" {
				objects[i].base = object(t, dir, "commit", commit)
			}
		}
		packOf(t, dir, objects...)
	}
	// A chain longer than git makes them.
	long := []packed{{hash: named("0"), kind: kindCommit, data: []byte(commit)}}
	for i := range 4_500 {
		long = append(long, packed{hash: named(fmt.Sprint(i + 1)), kind: kindReference, base: named(fmt.Sprint(i)), data: delta(len(commit), 1, len(commit), "")})
	}
	dir := make("long")
	packOf(t, dir, long...)
	put(t, dir, map[string]string{".git/refs/heads/main": named("4500") + "\n"})

	bus := start(t, "main="+top)
	var before, after runtime.MemStats
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		name := e.Name()
		runtime.ReadMemStats(&before)
		for _, call := range []string{"git_show", "git_log", "git_status"} {
			words := fails(t, bus, call, args{"path": name})
			if large := []string{"said-more", "target-size", "growing", "zeros"}; strings.Contains(words, "its log names call") || strings.Contains(words, top) ||
				call == "git_status" && slices.Contains(large, name) && !strings.Contains(words, "larger than 32 MiB") {
				t.Errorf("%s %s: %s", call, name, words)
			}
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > 512<<20 { // the race detector drops pooled values
			t.Errorf("%s took %d MiB", name, took>>20)
		}
	}
}

// Packs that git makes are read, with deltas of both kinds, and after a repack.
func TestPacks(t *testing.T) {
	t.Parallel()
	dir, b := project(t)
	for i := range 30 {
		put(t, dir, map[string]string{"grows.txt": strings.Repeat("a line that is there often\n", 100+i) + fmt.Sprint(i)})
		git(t, dir, "add", ".")
		git(t, dir, "commit", "-qm", fmt.Sprintf("commit %d", i))
	}
	git(t, dir, "tag", "-am", "a tag", "v1")
	want := map[string]string{}
	calls := map[string]args{"git_log": {"limit": 50}, "git_blame": {"path": "main/grows.txt"}, "git_show": {"revision": "v1~3"}, "git_diff": {"from": "HEAD~20", "to": "HEAD"}, "git_status": {}}
	for tool, a := range calls {
		want[tool] = text(b.Call(tool, a).Text)
	}
	hash := git(t, dir, "rev-parse", "HEAD~7")
	for _, repack := range [][]string{{"-c", "repack.usedeltabaseoffset=true", "repack", "-adfq"}, {"-c", "repack.usedeltabaseoffset=false", "repack", "-adfq"}, {"-c", "pack.indexVersion=2", "gc", "-q", "--aggressive"}} {
		git(t, dir, repack...)
		git(t, dir, "prune-packed")
		for tool, a := range calls {
			if got := text(b.Call(tool, a).Text); got != want[tool] {
				t.Errorf("%s after %v: %s, want %s", tool, repack, got, want[tool])
			}
		}
		if r := b.Call("git_show", args{"revision": hash[:9]}); r.IsError || !strings.Contains(r.Text, hash) {
			t.Errorf("%s after %v: %s", hash[:9], repack, r.Text)
		}
	}
}
