// Package storetest is the test suite that every store.Store must pass. It opens some stores twice
// on one database, as two processes would. Start reading at Run.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/resource/store"
)

// Opener makes an empty database and returns a function that opens a store on it, which may be
// called more than once.
type Opener func(t *testing.T) (open func() store.Store)

// Run checks stores against the contract.
func Run(t *testing.T, opener Opener) {
	for name, test := range map[string]func(*testing.T, func() store.Store){
		"a resource is created, read, updated and deleted": life,
		"errors say what is wrong":                         errorsSay,
		"content comes back to the byte":                   content,
		"tenants do not see each other":                    tenants,
		"pages hold everything once":                       pages,
		"a search finds what all conditions hold for":      search,
		"a repeated write has one effect":                  repeated,
		"of writers that expect one revision one succeeds": contention,
		"writers of one key at once have one effect":       sameKey,
		"writers at the same time lose nothing":            parallel,
		"events are published in order, at least once":     relay,
		"one relay runs at a time":                         oneRelay,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, opener(t))
		})
	}
}

// Text is text content.
func Text(s string) store.Content { return store.Content{Bytes: []byte(s)} }

// Make creates a resource with a text.
func Make(t testing.TB, s store.Store, tenant, uri, text string) store.Resource {
	t.Helper()
	r, err := s.Create(t.Context(), store.Resource{Tenant: tenant, URI: uri, Name: "n", MIMEType: "text/plain"}, Text(text), database.Key{})
	if err != nil {
		t.Fatalf("create %s: %v", uri, err)
	}
	return r
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	if !bytes.Equal(g, w) {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

func refused(t *testing.T, what string, err error, reason fault.Reason, data string) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Reason != reason || data != "" && string(f.Data) != data || f.Executed != fault.No {
		t.Errorf("%s: %v (%+v), want %s %s", what, err, f, reason, data)
	}
}

func life(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	priority := 0.5
	given := store.Resource{
		Tenant: "t", URI: "example://document1", Name: "Пример документа", Title: "T", Description: "Документ для тестирования API ресурсов", MIMEType: "text/plain",
		Annotations: &mcp.Annotations{Audience: []string{"user"}, Priority: &priority, LastModified: "2026-01-01T00:00:00Z"},
	}
	begin := time.Now().Add(-time.Second)
	made, err := s.Create(ctx, given, Text("Это содержимое тестового документа"), database.Key{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Revision != 1 || made.Size != 65 || made.Created.Before(begin) || made.Created != made.Updated || made.Binary {
		t.Errorf("%+v", made)
	}
	want := given
	want.Size, want.Revision, want.Created, want.Updated = made.Size, 1, made.Created, made.Updated
	same(t, "created", made, want)
	got, c, err := s.Read(ctx, "t", given.URI, nil)
	if err != nil || string(c.Bytes) != "Это содержимое тестового документа" || c.Binary {
		t.Errorf("%q %v", c.Bytes, err)
	}
	same(t, "read", got, made)

	title, text := "Another", Text("new")
	changed, err := s.Update(ctx, "t", given.URI, 1, store.Change{Title: &title, Content: &text}, database.Key{})
	if err != nil {
		t.Fatal(err)
	}
	want.Title, want.Size, want.Revision, want.Updated = "Another", 3, 2, changed.Updated
	same(t, "updated", changed, want)
	if changed.Updated.Before(changed.Created) {
		t.Errorf("updated %v before created %v", changed.Updated, changed.Created)
	}
	// Another process sees it too.
	if got, c, err = open().Read(ctx, "t", given.URI, nil); err != nil || string(c.Bytes) != "new" {
		t.Errorf("%q %v", c.Bytes, err)
	}
	same(t, "read again", got, changed)
	more := Text(" and more")
	if changed, err = s.Update(ctx, "t", given.URI, 0, store.Change{Content: &more, Append: true}, database.Key{}); err != nil || changed.Revision != 3 || changed.Size != 12 {
		t.Errorf("%+v %v", changed, err)
	}
	if got, err = s.Stat(ctx, "t", given.URI); err != nil {
		t.Error(err)
	}
	same(t, "stat", got, changed)
	gone, err := s.Delete(ctx, "t", given.URI, 3, database.Key{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "deleted", gone, changed)
	_, _, err = s.Read(ctx, "t", given.URI, nil)
	refused(t, "read", err, fault.UnknownResource, `{"uri":"example://document1"}`)
	if again := Make(t, s, "t", given.URI, "x"); again.Revision != 1 {
		t.Errorf("%+v", again)
	}
}

func errorsSay(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	Make(t, s, "", "a:1", "x")
	name, empty := "n2", ""
	if _, err := s.Update(ctx, "", "a:1", 0, store.Change{Name: &name}, database.Key{}); err != nil {
		t.Fatal(err)
	}
	create := func(r store.Resource, c store.Content) error {
		if r.URI == "" {
			r.URI = "a:2"
		}
		if r.Name == "" {
			r.Name = "n"
		}
		_, err := s.Create(ctx, r, c, database.Key{})
		return err
	}
	refused(t, "taken", create(store.Resource{URI: "a:1"}, Text("")), fault.Conflict, `{"uri":"a:1","revision":2}`)
	_, err := s.Update(ctx, "", "a:1", 1, store.Change{Name: &name}, database.Key{})
	refused(t, "update of another revision", err, fault.Conflict, `{"uri":"a:1","revision":2}`)
	_, err = s.Delete(ctx, "", "a:1", 7, database.Key{})
	refused(t, "delete of another revision", err, fault.Conflict, `{"uri":"a:1","revision":2}`)
	for what, err := range map[string]error{
		"no name": func() error {
			_, err := s.Update(ctx, "", "a:1", 0, store.Change{Name: &empty}, database.Key{})
			return err
		}(),
		"not UTF-8":      create(store.Resource{}, store.Content{Bytes: []byte{0xff}}),
		"a long name":    create(store.Resource{Name: strings.Repeat("x", store.MaxName+1)}, Text("")),
		"NUL in a name":  create(store.Resource{Name: "a\x00"}, Text("")),
		"bad audience":   create(store.Resource{Annotations: &mcp.Annotations{Audience: []string{"all"}}}, Text("")),
		"a space":        create(store.Resource{URI: "a:b c"}, Text("")),
		"NUL in the URI": create(store.Resource{URI: "a:b\x00"}, Text("")),
		"no scheme":      create(store.Resource{URI: "/etc/passwd"}, Text("")),
		"a long URI":     create(store.Resource{URI: "a:" + strings.Repeat("x", store.MaxURI)}, Text("")),
	} {
		refused(t, what, err, fault.InvalidParams, "")
	}
	binary := store.Content{Bytes: []byte{1}, Binary: true}
	_, err = s.Update(ctx, "", "a:1", 0, store.Change{Content: &binary, Append: true}, database.Key{})
	refused(t, "a blob behind a text", err, fault.InvalidParams, "")
	_, err = s.Update(ctx, "", "a:none", 0, store.Change{}, database.Key{})
	refused(t, "update of none", err, fault.UnknownResource, `{"uri":"a:none"}`)
	_, err = s.Delete(ctx, "", "a:none", 0, database.Key{})
	refused(t, "delete of none", err, fault.UnknownResource, `{"uri":"a:none"}`)
	for _, uri := range []string{"", "a:none", "a:\x00", "\xff:", "a:" + strings.Repeat("x", 9000)} {
		_, err := s.Stat(ctx, "", uri)
		refused(t, "stat", err, fault.UnknownResource, "")
	}
	// Refused writes leave nothing behind, not even an event.
	if page, _, err := s.List(ctx, "", store.Query{}, "", 10); err != nil || len(page) != 1 || page[0].Revision != 2 {
		t.Errorf("%+v %v", page, err)
	}
	if got := drain(t, s); got != "a:1 created 1, a:1 updated 2" {
		t.Errorf("events: %s", got)
	}
}

func content(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	large := bytes.Repeat([]byte("0123456789abcdef"), store.MaxContent/16)
	for name, c := range map[string]store.Content{
		"empty text": Text(""), "empty blob": {Binary: true}, "NUL": Text("a\x00b"), "emoji": Text("🦫\u2028\r\n"),
		"any byte": {Bytes: []byte{0, 255, 1, 0xc3, 0x28}, Binary: true}, "half": Text(strings.Repeat("x", store.SearchedText-1) + "ü"),
		"16MiB": {Bytes: large}, "16MiB-blob": {Bytes: large, Binary: true},
	} {
		uri := "content:" + strings.ReplaceAll(name, " ", "")
		if _, err := s.Create(ctx, store.Resource{URI: uri, Name: "n"}, c, database.Key{}); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r, got, err := s.Read(ctx, "", uri, nil)
		if err != nil || !bytes.Equal(got.Bytes, c.Bytes) || got.Binary != c.Binary || r.Size != int64(len(c.Bytes)) {
			t.Errorf("%s: %d bytes, binary %v, size %d, %v", name, len(got.Bytes), got.Binary, r.Size, err)
		}
	}
	// Large contents are read after admission, small ones without it.
	for uri, asked := range map[string][]int64{"content:16MiB": {store.MaxContent}, "content:emoji": nil} {
		var sizes []int64
		r, got, err := s.Read(ctx, "", uri, func(size int64) error { sizes = append(sizes, size); return nil })
		if err != nil || int64(len(got.Bytes)) != r.Size || !slices.Equal(sizes, asked) {
			t.Errorf("%s: %d of %d bytes, asked for %v, %v", uri, len(got.Bytes), r.Size, sizes, err)
		}
	}
	full := errors.New("full")
	if _, got, err := s.Read(ctx, "", "content:16MiB", func(int64) error { return full }); !errors.Is(err, full) || got.Bytes != nil {
		t.Errorf("not admitted: %d bytes, %v", len(got.Bytes), err)
	}
	_, err := s.Create(ctx, store.Resource{URI: "content:more", Name: "n"}, store.Content{Bytes: append(large, 'x')}, database.Key{})
	refused(t, "one byte more", err, fault.TooLarge, "")
	one := Text("x")
	_, err = s.Update(ctx, "", "content:16MiB", 1, store.Change{Content: &one, Append: true}, database.Key{})
	refused(t, "one byte appended", err, fault.TooLarge, "")
}

func tenants(t *testing.T, open func() store.Store) {
	s, ctx := open(), t.Context()
	for _, tenant := range []string{"", "a", "b"} {
		Make(t, s, tenant, "x:1", "of "+tenant)
	}
	Make(t, s, "a", "x:2", "only a's")
	if _, err := s.Delete(ctx, "b", "x:1", 0, database.Key{Tenant: "b", Caller: "c", Key: "k"}); err != nil {
		t.Fatal(err)
	}
	for _, tenant := range []string{"", "a"} {
		if _, c, err := s.Read(ctx, tenant, "x:1", nil); err != nil || string(c.Bytes) != "of "+tenant {
			t.Errorf("%q %v", c.Bytes, err)
		}
	}
	_, err := s.Stat(ctx, "b", "x:2")
	refused(t, "of another tenant", err, fault.UnknownResource, `{"uri":"x:2"}`)
	for tenant, n := range map[string]int{"": 1, "a": 2, "b": 0, "c": 0} {
		if page, _, err := s.List(ctx, tenant, store.Query{}, "", 10); err != nil || len(page) != n {
			t.Errorf("%q has %d, %v", tenant, len(page), err)
		}
	}
	// A key belongs to its tenant.
	if _, err := s.Delete(ctx, "a", "x:1", 0, database.Key{Tenant: "a", Caller: "c", Key: "k"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Stat(ctx, "a", "x:1"); !fault.Is(err, fault.UnknownResource) {
		t.Error("the other tenant's key was taken for ours")
	}
}

// drain publishes all events and returns them as text.
func drain(t testing.TB, s store.Store) string {
	t.Helper()
	var all []string
	for {
		n, err := s.Relay(t.Context(), 100, func(_ ctxt, events []store.Event) error {
			for _, e := range events {
				all = append(all, fmt.Sprintf("%s %s %d", e.URI, e.Kind, e.Revision))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return strings.Join(all, ", ")
		}
	}
}
