package gateway_test

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// M11: a person sees everything that they approve, or is told what is missing.
func TestM11APersonSeesWhatTheyAgreeTo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		tool, title, arguments string
		want                   []string
		never                  []string
	}{
		"all of it":              {"wipe", "", `{"pad":"` + strings.Repeat("x", 4000) + `","key":"DROP"}`, []string{"Let wipe run", strings.Repeat("x", 4000), `"key": "DROP"`}, []string{"not shown", "…"}},
		"the title":              {"wipe", "Wipe the disk", `{}`, []string{"Let Wipe the disk (tool wipe) run"}, nil},
		"nothing":                {"wipe", "", ``, []string{"\n{}"}, nil},
		"direction":              {"wipe", "", `{"to":"a` + "\u202e" + `b"}`, []string{`a\u202eb`}, []string{"\u202e"}},
		"escaped direction":      {"wipe", "", `{"to":"a\u202eb"}`, []string{`a\u202eb`}, []string{"\u202e"}},
		"no width":               {"wipe", "", "{\"to\":\"a\u200bb\u2060\ufeff\U000e0041\"}", []string{`a\u200bb\u2060\ufeff\U000e0041`}, []string{"\u200b", "\ufeff", "\U000e0041"}},
		"control":                {"wipe", "", `{"to":"\u001b[2J` + "\u0085" + `"}`, []string{`\u001b[2J\u0085`}, []string{"\x1b", "\u0085"}},
		"a disguised name":       {"wipe", "Re\u202ead\nme", `{}`, []string{`Re\u202ead\u000ame`}, []string{"\u202e"}},
		"letters written oddly":  {"wipe", "", `{"\u0074o":"\u0044ROP"}`, []string{`"to": "DROP"`}, nil},
		"numbers as they are":    {"wipe", "", `{"n":9007199254740993}`, []string{"9007199254740993"}, nil},
		"other languages stay":   {"wipe", "", `{"to":"Zürich 東京 😀"}`, []string{"Zürich 東京 😀"}, nil},
		"large, the last counts": {"wipe", "", `{"pad":"` + strings.Repeat("x", 500_000) + `","key":"DROP"}`, []string{`"pad": (not shown: 500002 bytes, SHA-256 `, `"key": "DROP"`, "NOT EVERYTHING IS SHOWN: 1 of 2"}, []string{"xxxx"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := gateway.Show(test.tool, test.title, []byte(test.arguments))
			for _, part := range test.want {
				if !strings.Contains(got, part) {
					t.Errorf("%.300q is not in %.600q", part, got)
				}
			}
			for _, part := range test.never {
				if strings.Contains(got, part) {
					t.Errorf("%q is in %.600q", part, got)
				}
			}
		})
	}
	t.Run("what is large has a digest", func(t *testing.T) {
		t.Parallel()
		value := `"` + strings.Repeat("x", 9000) + `"`
		arguments := `{"pad":` + value + `}`
		got := gateway.Show("wipe", "", []byte(arguments))
		for _, part := range []string{fmt.Sprintf("%x", sha256.Sum256([]byte(value))), fmt.Sprintf("%x", sha256.Sum256([]byte(arguments)))} {
			if !strings.Contains(got, part) {
				t.Errorf("%s is not in %s", part, got)
			}
		}
	})
	t.Run("many members are bounded, and said to be", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, `,"m%d":"%s"`, i, strings.Repeat("x", 20))
		}
		got := gateway.Show("wipe", "", []byte("{"+b.String()[1:]+"}"))
		if len(got) > 32<<10 || !strings.Contains(got, "of 20000 members") {
			t.Errorf("%d bytes: %.300s … %s", len(got), got, got[len(got)-200:])
		}
	})
}
