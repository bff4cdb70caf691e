package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

type ctxt = context.Context

// pages is a property: whatever resources are added and removed meanwhile, those that stay are
// listed once, in order.
func pages(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	var stay []string
	for i := range 60 {
		// These are ordered by bytes, not by a collation: Z before a, z before ä, and . before /.
		uri := fmt.Sprintf("p:%s%d", []string{"Z", "a", "ä", "z", "%20", "a/", "a.", "_"}[i%8], i)
		Make(t, s, "", uri, "x")
		stay = append(stay, uri)
	}
	slices.Sort(stay)
	for range 20 {
		limit := 1 + rand.IntN(20)
		var seen []string
		after, extra := "", 0
		for {
			page, more, err := s.List(ctx, "", store.Query{Prefix: "p:"}, after, limit)
			if err != nil || len(page) > limit || more && len(page) < limit {
				t.Fatalf("a page of %d of %d, more %v: %v", len(page), limit, more, err)
			}
			for _, r := range page {
				if !strings.HasPrefix(r.URI, "p:temp") {
					seen = append(seen, r.URI)
				}
				after = r.URI
			}
			if !more {
				break
			}
			// One is added and one removed, anywhere.
			extra++
			Make(t, s, "", fmt.Sprintf("p:temp%d", extra), "x")
			if extra > 1 {
				if _, err := s.Delete(ctx, "", fmt.Sprintf("p:temp%d", extra-1), 0, database.Key{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if !slices.Equal(seen, stay) {
			t.Fatalf("pages of %d: %v", limit, seen)
		}
		if extra > 0 {
			if _, err := s.Delete(ctx, "", fmt.Sprintf("p:temp%d", extra), 0, database.Key{}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func search(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	add := func(uri, name, title, description, mime, text string) {
		if _, err := s.Create(ctx, store.Resource{URI: uri, Name: name, Title: title, Description: description, MIMEType: mime}, Text(text), database.Key{}); err != nil {
			t.Fatal(err)
		}
	}
	add("s:1", "Отчёт", "", "Годовой отчёт", "text/markdown", "Прибыль выросла")
	add("s:2", "report", "Annual Report", "Zażółć GĘŚLĄ", "text/plain", "100% of under_score\x00 and \\ back")
	add("s:3", "picture", "", "", "IMAGE/PNG", "")
	add("s:34", "other", "", "年度報告", "image/jpeg", "straße")
	add("t:1", "far", "", "", "text/plain", strings.Repeat("x ", store.SearchedText)+"beyond")
	for _, c := range []struct {
		what string
		q    store.Query
		want string
	}{
		{"everything", store.Query{}, "s:1 s:2 s:3 s:34 t:1"},
		{"a prefix", store.Query{Prefix: "s:3"}, "s:3 s:34"},
		{"a prefix of none", store.Query{Prefix: "s:%"}, ""},
		{"a name", store.Query{Name: "ОТЧЁТ"}, "s:1"},
		{"a title", store.Query{Name: "annual"}, "s:2"},
		{"a description", store.Query{Text: "gęślą"}, "s:2"},
		{"a text", store.Query{Text: "ПРИБЫЛЬ"}, "s:1"},
		{"two words in two places", store.Query{Text: "report zażółć"}, "s:2"},
		{"two words, one missing", store.Query{Text: "report gone"}, ""},
		{"Chinese", store.Query{Text: "報告"}, "s:34"},
		{"folded", store.Query{Text: "STRASSE"}, "s:34"},
		{"a percent sign", store.Query{Text: "0%"}, "s:2"},
		{"an underscore", store.Query{Text: "r_s"}, "s:2"},
		{"no wildcard", store.Query{Text: "r_p"}, ""},
		{"a backslash", store.Query{Text: `\`}, "s:2"},
		{"a URI", store.Query{Text: "s:34"}, "s:34"},
		{"beyond what is searched", store.Query{Text: "beyond"}, ""},
		{"a type", store.Query{MIMEType: "text/plain"}, "s:2 t:1"},
		{"a family of types", store.Query{MIMEType: "image/*"}, "s:3 s:34"},
		{"no wildcard in a type", store.Query{MIMEType: "text_*"}, ""},
		{"all at once", store.Query{Prefix: "s:", Name: "report", Text: "under", MIMEType: "TEXT/*"}, "s:2"},
		{"NUL", store.Query{Prefix: "\x00", Name: "\x00", Text: "\x00", MIMEType: "\x00"}, ""},
		{"not UTF-8", store.Query{Prefix: "\xff", Name: "\xff", Text: "\xff", MIMEType: "\xff"}, ""},
	} {
		page, more, err := s.List(ctx, "", c.q, "", 10)
		var got []string
		for _, r := range page {
			got = append(got, r.URI)
		}
		if err != nil || more || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s; %v", c.what, got, c.want, err)
		}
	}
	page, more, err := s.List(ctx, "", store.Query{Prefix: "s:"}, "s:1", 2)
	if err != nil || !more || len(page) != 2 || page[0].URI != "s:2" {
		t.Errorf("%+v %v %v", page, more, err)
	}
	_, _, err = s.List(ctx, "", store.Query{Text: strings.Repeat("a ", store.MaxWords+1)}, "", 1)
	refused(t, "too many words", err, fault.InvalidParams, "")
}
