package lifecycle

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"unicode"
)

// hostile are texts of clients and services that would begin a line, end a record, or control a
// terminal.
var hostile = []string{
	"\n", "\r\n", "x\nlevel=ERROR msg=forged", "x\"}\n{\"level\":\"ERROR\",\"msg\":\"forged\"}", "\x1b[2J\x1b[31mred", "\x1b]0;title\a", "\b\b\b\bgone", "\u009b31mred", "\u0085", "\u2028\u2029", "\u202eesrever", "\x7f",
	"\U000e0041tag", "\xff\xfe\x00", `"`, `\n`, "=", "",
}

func hostileRecord(text string, asJSON bool) string {
	var b bytes.Buffer
	log := slog.New(logHandler(&b, slog.LevelDebug, asJSON, true))
	log.With("with", text).WithGroup("group").Error("tool "+text+" fails", "name", text, "error", errors.New(text), "any", struct{ Text string }{text}, text, "as a key", slog.Group("inner", "bytes", []byte(text)))
	return b.String()
}

func checkRecord(t *testing.T, text, line string, asJSON bool) {
	t.Helper()
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Errorf("%q makes more than a line:\n%q", text, line)
	}
	if i := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
		t.Errorf("%q: something that steers who shows it is at %d of\n%q", text, i, line)
	}
	if asJSON {
		var record map[string]any
		if err := json.Unmarshal([]byte(line), &record); err != nil || record["with"] != strings.ToValidUTF8(text, "\ufffd") {
			// Bytes that are not UTF-8 become one replacement character each, or one for all.
			if err != nil || strings.Trim(record["with"].(string), "\ufffd\x00") != strings.Trim(strings.ToValidUTF8(text, ""), "\x00") {
				t.Errorf("%q is logged as %q: %v", text, record["with"], err)
			}
		}
	}
}

// A record is one line in either format, whatever its fields contain.
func TestLogRecordIsOneLine(t *testing.T) {
	t.Parallel()
	for _, text := range hostile {
		for _, asJSON := range []bool{false, true} {
			checkRecord(t, text, hostileRecord(text, asJSON), asJSON)
		}
	}
}

func FuzzLogRecordIsOneLine(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, asJSON bool) {
		line := hostileRecord(text, asJSON)
		if strings.Count(line, "\n") != 1 || strings.ContainsFunc(line[:len(line)-1], func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q is logged as\n%q", text, line)
		}
		if asJSON && !json.Valid([]byte(line)) {
			t.Errorf("%q is logged as no JSON: %q", text, line)
		}
	})
}

// On a terminal the stack of a record stands below it, a line each; in a file and as JSON
// the record remains one line.
func TestStackBelowRecord(t *testing.T) {
	t.Parallel()
	stack := []string{"main.boom (/src/main.go:12)", "main.\nlevel=ERROR msg=forged\x1b[2J"}
	for want, as := range map[string]struct{ json, person bool }{
		"level=ERROR msg=\"it failed\" service=shop call=1 of.after=2\n    main.boom (/src/main.go:12)\n    main.\\nlevel=ERROR msg=forged\\u001b[2J\n":                          {person: true},
		"level=ERROR msg=\"it failed\" service=shop call=1 of.stack=\"[main.boom (/src/main.go:12) main.\\nlevel=ERROR msg=forged\\x1b[2J]\" of.after=2\n":                       {},
		`{"level":"ERROR","msg":"it failed","service":"shop","call":1,"of":{"stack":["main.boom (/src/main.go:12)","main.\nlevel=ERROR msg=forged\u001b[2J"],"after":2}}` + "\n": {json: true, person: true},
	} {
		var b bytes.Buffer
		log := slog.New(logHandler(&b, slog.LevelInfo, as.json, as.person)).With("service", "shop", "call", 1).WithGroup("of")
		log.Error("it failed", "stack", stack, "after", 2)
		got := b.String()
		if as.json {
			got = "{" + got[strings.Index(got, `"level"`):]
		} else {
			got = got[strings.Index(got, "level="):]
		}
		if got != want {
			t.Errorf("%+v:\n%s\nwant\n%s", as, got, want)
		}
		b.Reset()
		log.Error("another", "stack", "text")
		if strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), "text") {
			t.Errorf("%+v: a stack of another type:\n%s", as, &b)
		}
	}
}
