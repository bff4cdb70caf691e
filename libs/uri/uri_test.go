package uri_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/uri"
)

func TestWeb(t *testing.T) {
	t.Parallel()
	same := map[string][]string{
		"https://example.com/": {
			"https://example.com", "HTTPS://EXAMPLE.com/", "https://example.com:443/", "https://example.com:/", "https://example.com:0443", "https://example.com./",
			"https://example.com?", "https://example.com/#", "https://example.com/#a/b?c", "https://example.com/.", "https://example.com/a/..", "https://example.com/../", "https://example.com/%2E%2e/",
		},
		"https://example.com/a/b":            {"https://example.com/a/./b", "https://example.com/x/../a/b", "https://example.com/%61/b", "https://example.com/a/%62?", "https://example.com:443/a/b#"},
		"https://example.com//a":             {"https://EXAMPLE.com//a"},
		"https://example.com/a%2Fb":          {"https://example.com/a%2fb"},
		"https://example.com/?a=%62":         {"https://example.com?a=%62", "https://example.com/?a=%62#c"},
		"https://example.com/?a=/../b":       {"https://example.com?a=/../b"},
		"https://example.com:8443/":          {"https://example.com:08443"},
		"http://example.com/":                {"http://example.com:80", "HTTP://example.com:080/#"},
		"http://example.com:443/":            {"http://example.com:443"},
		"https://xn--bcher-kva.example/":     {"https://bücher.example", "https://BÜCHER.example/", "https://XN--BCHER-KVA.example", "https://b\u0075\u0308cher.example"},
		"https://localhost/x":                {"https://ｌｏｃａｌｈｏｓｔ/x", "https://LOCALHOST/x"},
		"https://a.example/":                 {"https://a。example/", "https://a．example"},
		"https://[::1]/":                     {"https://[0:0:0:0:0:0:0:1]", "https://[::0001]:443/", "https://[0::1]:"},
		"https://127.0.0.1/":                 {"https://[::ffff:127.0.0.1]/", "https://[::FFFF:7f00:1]"},
		"https://a_b--c.example/":            {"https://A_b--c.example"},
		"https://example.com/a/?b":           {"https://example.com/a/c/..?b"},
		"https://example.com/a%20b":          {"https://example.com/a b"},
		"https://example.com/%E4%BE%8B/~a-z": {"https://example.com/例/%7ea%2Dz"},
	}
	for want, all := range same {
		for _, raw := range append(all, want) {
			if got, err := uri.Web(raw); got != want {
				t.Errorf("Web(%q) = %q, %v, want %q", raw, got, err, want)
			}
		}
	}
	for _, raw := range []string{
		"", "https://", "https:", "https:///x", "https:example.com", "https:/example.com", "ftp://example.com", "example.com", "//example.com/", "https://user@example.com/", "https://@example.com/",
		"https://example.com:0/", "https://example.com:65536/", "https://example.com:x/", `https://example.com\x`, `https:\\example.com`, "https://exa\tmple.com", "https://example.com/\n", " https://example.com",
		"https://.example.com", "https://a..b", "https://..", "https://.", "https://*.example.com/", "https://127.1/", "https://0x7f.1", "https://2130706433/", "https://127.0.0.01", "https://1.2.3.0x4", "https://[fe80::1%25eth0]/",
		"https://[::1", "https://::1/", "https://example.com/%zz", "https://%6cocalhost/",
	} {
		if got, err := uri.Web(raw); err == nil {
			t.Errorf("Web(%q) = %q, want an error", raw, got)
		}
	}
}

func TestReadings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		raw  string
		want []string
	}{
		{"https://localhost/exact.txt", []string{"https://localhost/exact.txt"}},
		{"HTTPS://u:p@LocalHost:0443//a/%2e/b%2Fc/?#x", []string{"https://localhost/a/b/c/"}},
		{`https:localhost\secret/x`, []string{"https://localhost/secret/x"}},
		{"\thttps://localhost/se\ncret/x ", []string{"https://localhost/secret/x"}},
		{"https://localhost/x ", []string{"https://localhost/x ", "https://localhost/x"}},
		{"https://localhost/x?a=/../%62&%zz", []string{"https://localhost/x?a=/../b&%zz"}},
		{"https://localhost/a//../b", []string{"https://localhost/a/b", "https://localhost/b"}},
		{"https://localhost/%73/%2f../b%", []string{"https://localhost/b%", "https://localhost/s/b%"}},
		{"https://user@localhost:8443/%61", []string{"https://localhost:8443/a"}},
		{"https://b%C3%BCcher.example", []string{"https://xn--bcher-kva.example/"}},
		{"https://{+rest}", []string{"https://{+rest}/"}},
		{"file:/srv/../etc//x", []string{"file:///etc/x"}},
		{"FILE://LOCALHOST/%65tc/x", []string{"file:///etc/x"}},
		{"note:open/%2e%2e/Secret", []string{"note:Secret"}},
		{"team://ACME", []string{"team://acme"}},
		{"team://%41cme//a?b=/../c", []string{"team://acme/a?b=/../c", "team://acme/c"}},
		{"note:a#b/../c", []string{"note:a#b/../c", "note:c"}},
		{"urn:a:b", []string{"urn:a:b"}},
		{"no%20scheme/a:b", []string{"no scheme/a:b"}},
		{"file%3A///etc", []string{"file:///etc"}},
		{"", []string{""}},
	} {
		if got := uri.Readings(c.raw); !slices.Equal(got, c.want) {
			t.Errorf("Readings(%q) = %q, want %q", c.raw, got, c.want)
		}
	}
}

func TestPattern(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"https://localhost:443/secret/*": "https://localhost/secret/*",
		"HTTPS://BÜCHER.example/A/*/%62": "https://xn--bcher-kva.example/A/*/b",
		"https://localhost/x#*":          "https://localhost/x",
		"https://localhost/x*#y*":        "https://localhost/x*",
		"https://localhost/#/*":          "https://localhost/",
		"https://localhost:443":          "https://localhost/",
		"https://localhost*":             "https://localhost*",
		"https://*":                      "https://*",
		"https:*":                        "https:*",
		"https://*.Example.com:443/X*":   "https://*.example.com/X*",
		"https://*.Example.com":          "https://*.example.com/",
		"https://h/x?next=/a*":           "https://h/x?next=/a*",
		"file:/srv/*":                    "file:///srv/*",
		"file:///*Etc":                   "file:///*Etc",
		"team://Acme*":                   "team://acme*",
		"Note:%41/../b/*":                "note:b/*",
		"note:Secret*":                   "note:Secret*",
		"*":                              "*",
		"a*":                             "a*",
	} {
		if got := strings.Join(uri.Pattern(strings.Split(pattern, "*")), "*"); got != want {
			t.Errorf("Pattern(%q) = %q, want %q", pattern, got, want)
		}
	}
}

// FuzzWeb: the normal form is stable, and every URI with that form has its reading, which a policy
// checks.
func FuzzWeb(f *testing.F) {
	for _, s := range []string{"https://a/b", "HTTPS://A:443/%62?#", "http://[::ffff:1.2.3.4]:80//../x", "https://bücher.example./ \\%5c", "https://a?%2", "file://localhost/x", "note:a#?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		all := uri.Readings(raw)
		if len(all) == 0 {
			t.Fatalf("%q has no reading", raw)
		}
		page, err := uri.Web(raw)
		if err != nil {
			return
		}
		if again, err := uri.Web(page); again != page {
			t.Errorf("%q is %q, which is %q, %v", raw, page, again, err)
		}
		for _, one := range uri.Readings(page) {
			if !slices.Contains(all, one) {
				t.Errorf("%q is requested as %q, which may be read as %q, and it not: %q", raw, page, one, all)
			}
		}
		if first := uri.Readings(page)[0]; first != all[0] {
			t.Errorf("%q reads as %q, its normal form as %q", raw, all[0], first)
		}
	})
}
