package resource_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/edges"
	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/resource"
	"github.com/busbar-mcp/busbar/services/resource/store"
	"github.com/busbar-mcp/busbar/services/resource/store/table"
)

type (
	entry = resource.Entry
	page  = resource.ListOut
	part  = resource.ReadOut
)

const seed = `{"uri":"example://document1","name":"Пример документа","description":"Документ для тестирования API ресурсов","mimeType":"text/plain","text":"Это содержимое тестового документа"}`

func TestTools(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg resource.Env) {
		url := bustest.Server(t)
		instance(t, url, cfg)
		c := connect(t, url)
		read := func(uri string) (string, error) {
			raw, err := c.do(&busv1.Request{Method: "resources/read", Name: uri})
			return string(raw), err
		}
		t.Run("a resource of the seed lives its life", func(t *testing.T) {
			made := ok[entry](c, "create_resource", seed)
			if made.Name != "Пример документа" || made.Revision != 1 || made.Size != 65 || made.CreatedAt.IsZero() {
				t.Errorf("%+v", made)
			}
			got, err := read("example://document1")
			if want := `{"contents":[{"uri":"example://document1","mimeType":"text/plain","text":"Это содержимое тестового документа"}]}`; err != nil || got != want {
				t.Errorf("%s %v", got, err)
			}
			if p := ok[part](c, "read_resource", `{"uri":"example://document1"}`); *p.Text != "Это содержимое тестового документа" || p.NextOffset != 0 || p.Revision != 1 {
				t.Errorf("%+v", p)
			}
			if f := c.refused(fault.Conflict, "create_resource", seed); string(f.Data) != `{"uri":"example://document1","revision":1}` {
				t.Errorf("%s", f.Data)
			}
			changed := ok[entry](c, "update_resource", `{"uri":"example://document1","expectedRevision":1,"text":"новое","title":"T"}`)
			if changed.Revision != 2 || changed.Title != "T" || changed.Description != made.Description {
				t.Errorf("%+v", changed)
			}
			if f := c.refused(fault.Conflict, "update_resource", `{"uri":"example://document1","expectedRevision":1,"text":"lost"}`); string(f.Data) != `{"uri":"example://document1","revision":2}` || f.Executed != fault.No {
				t.Errorf("%+v", f)
			}
			ok[entry](c, "delete_resource", `{"uri":"example://document1","expectedRevision":2}`)
			if _, err := read("example://document1"); !fault.Is(err, fault.UnknownResource) {
				t.Errorf("%v", err)
			}
		})
		t.Run("names and types are made up where none are given", func(t *testing.T) {
			text := ok[entry](c, "create_resource", `{"uri":"made://a/b.txt","text":""}`)
			blob := ok[entry](c, "create_resource", `{"uri":"made:x","blob":"AAE="}`)
			none := ok[entry](c, "create_resource", `{"uri":"made:`+strings.Repeat("y", 1000)+`"}`)
			if text.Name != "b.txt" || text.MIMEType != "text/plain" || blob.Name != "made:x" || blob.MIMEType != "application/octet-stream" || blob.Size != 2 || none.Size != 0 {
				t.Errorf("%+v\n%+v\n%+v", text, blob, none)
			}
			if got, err := read("made:x"); err != nil || !strings.Contains(got, `"blob":"AAE="`) {
				t.Errorf("%s %v", got, err)
			}
		})
		t.Run("wrong arguments are refused", func(t *testing.T) {
			for _, bad := range []string{
				`{"uri":"x:1","text":"a","blob":"AA=="}`, `{"uri":"x:1","blob":"?"}`, `{"uri":"none","text":""}`, `{"uri":"","text":""}`, `{"uri":"x:a b"}`,
				`{"uri":"x:1","annotations":{"audience":["all"]}}`, `{"uri":"x:1","name":"` + strings.Repeat("n", store.MaxName+1) + `"}`, `{"uri":7}`,
			} {
				c.refused(fault.InvalidParams, "create_resource", bad)
			}
			c.refused(fault.InvalidParams, "update_resource", `{"uri":"made:x","expectedRevision":-1}`)
			c.refused(fault.InvalidParams, "update_resource", `{"uri":"made:x","text":"a","append":true}`)
			c.refused(fault.UnknownResource, "update_resource", `{"uri":"x:none","title":"T"}`)
			c.refused(fault.UnknownResource, "delete_resource", `{"uri":"x:none"}`)
			c.refused(fault.InvalidParams, "list_resources", `{"cursor":"x"}`)
			c.refused(fault.InvalidParams, "list_resources", `{"limit":-1}`)
			c.refused(fault.InvalidParams, "search_resources", `{"query":"1 2 3 4 5 6 7 8 9"}`)
			c.refused(fault.InvalidParams, "read_resource", `{"uri":"made:x","offset":-1}`)
		})
		t.Run("what is too large for one call is appended, and read in parts", func(t *testing.T) {
			piece := strings.Repeat("äöü€🦫x", 20_000)
			ok[entry](c, "create_resource", `{"uri":"large:1","text":""}`)
			var want strings.Builder
			for range 5 {
				ok[entry](c, "update_resource", `{"uri":"large:1","append":true,"text":`+quote(piece)+`}`)
				want.WriteString(piece)
			}
			var got strings.Builder
			for offset := int64(0); ; {
				p := ok[part](c, "read_resource", fmt.Sprintf(`{"uri":"large:1","offset":%d,"limit":%d}`, offset, 100_000+rand.IntN(100_000)))
				got.WriteString(*p.Text)
				if offset = p.NextOffset; offset == 0 {
					break
				}
			}
			if got.String() != want.String() {
				t.Errorf("%d bytes came back of %d", got.Len(), want.Len())
			}
			tiny := ok[part](c, "read_resource", `{"uri":"large:1","offset":6,"limit":1}`)
			if *tiny.Text != "€" || tiny.NextOffset != 9 {
				t.Errorf("%q, then %d", *tiny.Text, tiny.NextOffset)
			}
			blob := base64.StdEncoding.EncodeToString([]byte{1, 2, 3, 4, 5})
			ok[entry](c, "create_resource", `{"uri":"large:2","blob":"`+blob+`"}`)
			if p := ok[part](c, "read_resource", `{"uri":"large:2","offset":1,"limit":3}`); *p.Blob != "AgME" || p.NextOffset != 4 || p.Size != 5 {
				t.Errorf("%+v", p)
			}
			if p := ok[part](c, "read_resource", `{"uri":"large:2","offset":99}`); *p.Blob != "" || p.NextOffset != 0 {
				t.Errorf("%+v", p)
			}
		})
		t.Run("pages and searches go on where they were", func(t *testing.T) {
			var want []string
			for i := range 30 {
				uri := fmt.Sprintf("page:%02d", i)
				ok[entry](c, "create_resource", `{"uri":"`+uri+`","text":"word`+fmt.Sprint(i%2)+`","description":`+quote(strings.Repeat("d", 8000))+`}`)
				want = append(want, uri)
			}
			var got []string
			cursor := ""
			for {
				p := ok[page](c, "list_resources", `{"prefix":"page:","limit":250,"cursor":"`+cursor+`"}`)
				for _, e := range p.Resources {
					got = append(got, e.URI)
				}
				if len(p.Resources) == 30 {
					t.Error("a page is larger than its bound")
				}
				if cursor = p.NextCursor; cursor == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v", got)
			}
			found := ok[page](c, "search_resources", `{"query":"WORD1","prefix":"page:","limit":5}`)
			if len(found.Resources) != 5 || found.Resources[0].URI != "page:01" {
				t.Errorf("%d found", len(found.Resources))
			}
			found = ok[page](c, "search_resources", `{"query":"WORD1","prefix":"page:","limit":5,"cursor":"`+found.NextCursor+`"}`)
			if len(found.Resources) != 5 || found.Resources[0].URI != "page:11" {
				t.Errorf("%d found", len(found.Resources))
			}
			c.refused(fault.InvalidParams, "list_resources", `{"cursor":"`+found.NextCursor+`"}`)
		})
		t.Run("configurations are completed by their names", func(t *testing.T) {
			for _, name := range []string{"alpha", "alpine", "beta", "al%20x", "a/deep"} {
				ok[entry](c, "create_resource", `{"uri":"custom://config/`+name+`","text":"{}","mimeType":"application/json"}`)
			}
			complete := func(typed string) string {
				raw, err := c.do(&busv1.Request{Method: "completion/complete", Arguments: []byte(`{"ref":{"type":"ref/resource","uri":"custom://config/{config_name}"},"argument":{"name":"config_name","value":"` + typed + `"}}`)})
				if err != nil {
					t.Fatal(err)
				}
				return string(raw)
			}
			for typed, want := range map[string]string{"al": `["al x","alpha","alpine"],"total":3`, "al x": `["al x"],"total":1`, "": `["al x","alpha","alpine","beta"],"total":4`, "z": `[],"total":0`, "%": `[],"total":0`} {
				if got := complete(typed); got != `{"completion":{"values":`+want+`,"hasMore":false}}` {
					t.Errorf("%q: %s", typed, got)
				}
			}
			if got, err := read("custom://config/alpha"); err != nil || !strings.Contains(got, `"application/json"`) {
				t.Errorf("%s %v", got, err)
			}
		})
		t.Run("tenants do not see each other", func(t *testing.T) {
			ours, theirs := c.of("us"), c.of("them")
			ok[entry](ours, "create_resource", `{"uri":"t:1","text":"ours"}`)
			theirs.refused(fault.UnknownResource, "read_resource", `{"uri":"t:1"}`)
			theirs.refused(fault.UnknownResource, "delete_resource", `{"uri":"t:1"}`)
			ok[entry](theirs, "create_resource", `{"uri":"t:1","text":"theirs"}`)
			if p := ok[part](ours, "read_resource", `{"uri":"t:1"}`); *p.Text != "ours" {
				t.Errorf("%s", *p.Text)
			}
			if p := ok[page](theirs, "list_resources", `{}`); len(p.Resources) != 1 {
				t.Errorf("%+v", p)
			}
		})
	})
}

func TestIdempotencyKeys(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg resource.Env) {
		url := bustest.Server(t)
		instance(t, url, cfg)
		c := connect(t, url)
		create := `{"uri":"k:1","text":"x"}`
		first, err := c.call("create_resource", "key", create)
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.call("create_resource", "key", `{"text":"x","uri":"k:1"}`)
		if err != nil || string(again) != string(first) {
			t.Errorf("the answer was %s, and is %s, %v", first, again, err)
		}
		if _, err := c.call("create_resource", "key", `{"uri":"k:2","text":"x"}`); !fault.Is(err, fault.Conflict) {
			t.Errorf("another payload: %v", err)
		}
		if _, err := c.call("delete_resource", "key", `{"uri":"k:1"}`); !fault.Is(err, fault.Conflict) {
			t.Errorf("another tool: %v", err)
		}
		for range 3 {
			if _, err := c.call("update_resource", "append", `{"uri":"k:1","text":"y","append":true}`); err != nil {
				t.Fatal(err)
			}
		}
		if p := ok[part](c, "read_resource", `{"uri":"k:1"}`); *p.Text != "xy" || p.Revision != 2 {
			t.Errorf("%q at %d", *p.Text, p.Revision)
		}
		if _, err := c.of("other").call("create_resource", "key", create); err != nil {
			t.Errorf("another tenant's key: %v", err)
		}
	})
}

func TestSources(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.md"), []byte("# a"), 0o600); err != nil {
		t.Fatal(err)
	}
	url := bustest.Server(t)
	instance(t, url, resource.Env{DataEnv: service.DataEnv{Env: service.Env{Log: bustest.Logger(t)}, DataDir: t.TempDir()}, FileRoots: dir, HTTPAllow: []string{"localhost"}, GitRoots: dir})
	c := connect(t, url)
	if p := ok[part](c, "read_resource", `{"uri":"file://`+dir+`/a.md"}`); *p.Text != "# a" || p.Size != 3 || p.Revision != 0 {
		t.Errorf("%+v", p)
	}
	for uri, reason := range map[string]fault.Reason{
		"file:///etc/passwd": fault.Forbidden, "FILE:///etc/passwd": fault.Forbidden, "https://localhost/": fault.Forbidden, "https://example.com/": fault.Forbidden, "git://none/main/x": fault.UnknownResource,
	} {
		c.refused(reason, "read_resource", `{"uri":"`+uri+`"}`)
		c.refused(fault.InvalidParams, "create_resource", `{"uri":"`+uri+`","text":"x"}`)
	}

	t.Run("what is off is stored like anything else", func(t *testing.T) {
		t.Parallel()
		url := bustest.Server(t)
		instance(t, url, resource.Env{DataEnv: service.DataEnv{Env: service.Env{Log: bustest.Logger(t)}, DataDir: t.TempDir()}})
		c := connect(t, url)
		c.refused(fault.UnknownResource, "read_resource", `{"uri":"file:///etc/passwd"}`)
		ok[entry](c, "create_resource", `{"uri":"file:///etc/passwd","text":"stored"}`)
		if p := ok[part](c, "read_resource", `{"uri":"file:///etc/passwd"}`); *p.Text != "stored" {
			t.Errorf("%+v", p)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	file := service.DataEnv{DataDir: t.TempDir()}
	for what, c := range map[string]struct {
		cfg  resource.Env
		says string
	}{
		"no place":           {resource.Env{}, "BUSBAR_DATABASE_URL"},
		"another database":   {resource.Env{DataEnv: service.DataEnv{DatabaseURL: "mysql://x"}}, "postgres://"},
		"no such directory":  {resource.Env{DataEnv: file, FileRoots: "/none/such"}, "directory"},
		"no such repository": {resource.Env{DataEnv: file, GitRoots: "/none/such"}, "directory"},
		"no host":            {resource.Env{DataEnv: file, HTTPAllow: []string{"https://x"}}, "not a valid host"},
	} {
		if _, err := resource.New(t.Context(), c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOutbox: the next process publishes the events that a dead process has committed, in order.
func TestOutbox(t *testing.T) {
	onBoth(t, func(t *testing.T, cfg resource.Env) {
		s, err := table.Open(t.Context(), database.Config{URL: cfg.DatabaseURL, File: cfg.File("resource.db"), Wait: bustest.Patience, Work: bustest.Patience}, table.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 600 {
			uri := fmt.Sprintf("o:%d", i)
			if _, err := s.Create(t.Context(), store.Resource{Tenant: "t", URI: uri, Name: "n"}, store.Content{}, database.Key{}); err != nil {
				t.Fatal(err)
			}
			want = append(want, uri)
		}
		s.Close() // it died before it published anything

		url := bustest.Server(t)
		heard := make(chan bus.Updated, 10_000)
		stop, err := edges.OnUpdated(bustest.Connect(t, url), func(u bus.Updated) { heard <- u })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		instance(t, url, cfg)
		var got []string
		told := map[string]bool{}
		for late := time.After(bustest.Patience); len(got) < len(want); {
			var u bus.Updated
			select {
			case u = <-heard:
			case <-late:
				t.Fatalf("%d of %d are told in %v", len(got), len(want), bustest.Patience)
			}
			if u.Service != "resource" || u.Tenant != "t" || !u.Listed {
				t.Fatalf("%+v", u)
			}
			if !told[u.URI] { // an event that Postgres deleted too slowly is published again
				told[u.URI] = true
				got = append(got, u.URI)
			}
		}
		if !slices.Equal(got, want) {
			t.Error("not in order")
		}
		if s, err = table.Open(t.Context(), database.Config{URL: cfg.DatabaseURL, File: cfg.File("resource.db"), Wait: bustest.Patience, Work: bustest.Patience}, table.Limits{}); err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		bustest.Eventually(t, "what was told is forgotten", func() bool {
			left := false
			_, err := s.Relay(t.Context(), 1, func(context.Context, []store.Event) error {
				left = true
				return errors.New("kept")
			})
			return err == nil && !left
		})
	})
}

// FuzzCursor: a cursor that was not made here is refused.
func FuzzCursor(f *testing.F) {
	scope := []byte{1, 2, 3, 4, 5, 6, 7, 8}
	f.Add("")
	f.Add(resource.MakeCursor(scope, "a:1"))
	f.Fuzz(func(t *testing.T, cursor string) {
		after, err := resource.ParseCursor(scope, cursor)
		switch {
		case err != nil && !fault.Is(err, fault.InvalidParams):
			t.Errorf("%q: %v", cursor, err)
		case err == nil && cursor != "" && resource.MakeCursor(scope, after) != cursor:
			t.Errorf("%q was taken for %q", cursor, after)
		}
	})
}

// TestCursors is a property: a cursor continues after the URI that it was made from, and only for
// the same query.
func TestCursors(t *testing.T) {
	t.Parallel()
	for range 1000 {
		uri := "x:"
		for range 1 + rand.IntN(30) {
			uri += string(rune(0x21 + rand.IntN(0x5000)))
		}
		if store.CheckURI(uri) != nil {
			continue
		}
		one, other := []byte{1, 2, 3, 4, 5, 6, 7, 8}, []byte{1, 2, 3, 4, 5, 6, 7, 9}
		cursor := resource.MakeCursor(one, uri)
		if after, err := resource.ParseCursor(one, cursor); err != nil || after != uri {
			t.Fatalf("%q became %q, %v", uri, after, err)
		}
		if _, err := resource.ParseCursor(other, cursor); !fault.Is(err, fault.InvalidParams) {
			t.Fatalf("taken for another query: %v", err)
		}
	}
}
