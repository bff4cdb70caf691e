package docs

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestTroubleshooting compares the messages of docs/guides/troubleshooting.md with the code: text
// between two places that differ must be in a text of the code.
func TestTroubleshooting(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	for _, room := range []string{"libs", "services", "scripts"} {
		err := filepath.WalkDir(filepath.Join(root, room), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || filepath.Ext(path) != ".go" && path != filepath.Join(root, "scripts/test") {
				return err
			}
			source, err := os.ReadFile(path)
			if err == nil && filepath.Ext(path) == ".go" {
				source = texts(source)
			}
			said.Write(source)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	everything := said.String()
	messages := only(blocks(t, "docs/guides/troubleshooting.md"), "text")
	if len(messages) < 20 {
		t.Errorf("%d messages", len(messages))
	}
	// The kernel says this, and the flag differs.
	theirs := strings.NewReplacer("listen tcp 127.0.0.1:8000: bind: address already in use", "…", "with --listen", "with …")
	for _, message := range messages {
		for _, part := range strings.Split(theirs.Replace(strings.TrimSpace(message)), "…") {
			if part = strings.Trim(part, " ,"); len(part) > 3 && !strings.Contains(everything, part) {
				t.Errorf("nothing says %q, of\n%s", part, message)
			}
		}
	}
}

// texts are the literals of a file, one after another where the file adds them; a verb
// that stands for a value ends one.
func texts(source []byte) []byte {
	var out []byte
	var s scanner.Scanner
	files := token.NewFileSet()
	s.Init(files.AddFile("", files.Base(), len(source)), source, nil, 0)
	verb := regexp.MustCompile(`%(?:\[\d+\])?[-+.#\d]*[a-zA-Z]`)
	for {
		_, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return append(out, '\n')
		case token.STRING:
			text, _ := strconv.Unquote(literal)
			out = append(out, verb.ReplaceAllString(text, "\x00")...)
		case token.ADD:
		default:
			out = append(out, '\n')
		}
	}
}
