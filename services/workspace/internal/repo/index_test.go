package repo

import (
	"io"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/index"
)

// FuzzFits: if an index fits, go-git reads no more bytes of paths from it than the limit.
func FuzzFits(f *testing.F) {
	entry := strings.Repeat("\x00", 61) + "\x01a\x00"
	f.Add("DIRC\x00\x00\x00\x02\x00\x00\x00\x01" + entry + strings.Repeat("\x00", 8))
	f.Add("DIRC\x00\x00\x00\x04\x00\x00\x00\x02" + strings.Repeat("\x00", 63) + "a\x00" + strings.Repeat("\x00", 62) + "\x01b\x00")
	f.Add("DIRC\x00\x00\x00\x04\xff\xff\xff\xff")
	f.Fuzz(func(t *testing.T, data string) {
		r := strings.NewReader(data)
		if fits(r) != nil {
			return
		}
		if at, _ := r.Seek(0, io.SeekCurrent); at != 0 {
			t.Fatalf("the next reader begins at %d", at)
		}
		var read index.Index
		_ = index.NewDecoder(r).Decode(&read) // its checksum is hardly ever right
		for _, e := range read.Entries {
			if len(e.Name) > maxIndexName || strings.Count(e.Name, "/") >= maxIndexDepth {
				t.Fatalf("a path of %d bytes was let through", len(e.Name))
			}
		}
	})
}
