package search

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

var verbs = []struct{ name, text string }{
	{"create", "Creates %s in %s and returns its id."}, {"get", "Returns %s of %s by id."}, {"list", "Lists each %s in %s, a page at a time."},
	{"update", "Changes fields of %s in %s."}, {"delete", "Deletes %s from %s for good."}, {"search", "Searches %s in %s by words and filters."},
	{"count", "Counts %s in %s that fit a filter."}, {"export", "Writes %s of %s to a CSV file."}, {"import", "Reads %s into %s from a CSV file."},
	{"archive", "Moves %s of %s to the archive."}, {"restore", "Brings %s of %s back."}, {"copy", "Copies %s within %s."},
	{"share", "Gives others access to %s in %s."}, {"approve", "Approves %s in %s."}, {"reject", "Rejects %s in %s, with a reason."},
	{"assign", "Assigns %s in %s to somebody."}, {"send", "Sends %s from %s."}, {"cancel", "Cancels %s in %s."},
	{"compare", "Compares two versions of %s in %s."}, {"schedule", "Schedules %s in %s for a time."},
}

// fleet is 10,000 tools of 25 services, described in English: for each of ten things that
// a service has, twenty verbs, for one or for many.
func fleet(t testing.TB) (all []Tool) {
	for _, line := range lines(t, "fleet.txt") {
		domain, objects, _ := strings.Cut(line, ": ")
		for _, object := range strings.Fields(objects) {
			for _, v := range verbs {
				for _, many := range []string{"", "bulk_"} {
					name := domain + "_" + many + v.name + "_" + object
					what := "one " + strings.ReplaceAll(object, "_", " ")
					if many != "" {
						what = "many of " + strings.ReplaceAll(object, "_", " ") + " at once"
					}
					entry, _ := json.Marshal(map[string]any{
						"name": name, "description": fmt.Sprintf(v.text, what, domain),
						"inputSchema": map[string]any{"type": "object", "properties": map[string]any{
							object + "_id": map[string]any{"type": "string", "description": "Id of the " + object}, "fields": map[string]any{"type": "array"}}},
					})
					all = append(all, Tool{name, entry})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func everything(string) bool { return true }

// An index after many changes gives the same results as one that is made at once.
func TestUpdate(t *testing.T) {
	t.Parallel()
	all := fleet(t)[:300]
	random := rand.New(rand.NewPCG(1, 2))
	changing := &Index{}
	for range 6 {
		var some []Tool
		for _, tool := range all {
			switch random.IntN(3) {
			case 0:
				some = append(some, tool)
			case 1:
				some = append(some, Tool{tool.Name, []byte(`{"name":"x","description":"another invoice"}`)})
			}
		}
		changing.Update(some)
		once := &Index{}
		once.Update(some)
		for _, query := range []string{"send an invoice", "wyślij fakturę", "另一张发票", "another ticket of crm", "nothing of that kind"} {
			if got, want := changing.Search(query, 20, everything), once.Search(query, 20, everything); !slices.Equal(got, want) {
				t.Fatalf("%s: %v, and at once %v", query, got, want)
			}
		}
		if got, want := len(changing.terms), len(once.terms); got != want || changing.length != once.length {
			t.Fatalf("%d terms of length %d, and at once %d of %d", got, changing.length, want, once.length)
		}
	}
	for _, name := range changing.Search("invoice", 1000, func(name string) bool { return strings.HasPrefix(name, "billing_get") }) {
		if !strings.HasPrefix(name, "billing_get") {
			t.Errorf("%s was not to be seen", name)
		}
	}
	if changing.Update(nil); changing.Len() != 0 || changing.Search("invoice", 5, everything) != nil {
		t.Error("the empty index finds something")
	}
}

// Versions of one tool leave room for others, and count in full if the other versions are
// hidden.
func TestVary(t *testing.T) {
	t.Parallel()
	all := []Tool{{"cms_get_page", nil}, {"wiki_get_page_as_text", nil}}
	for i := range 6 {
		all = append(all, Tool{fmt.Sprintf("cms_get_page_v%d", i+2), nil})
	}
	slices.SortFunc(all, func(a, b Tool) int { return strings.Compare(a.Name, b.Name) })
	x := &Index{}
	x.Update(all)
	if got := x.Search("get page", 5, everything); len(got) != 5 || got[0] != "cms_get_page" || !slices.Contains(got, "wiki_get_page_as_text") {
		t.Errorf("of all: %v", got)
	}
	// Many hidden tools of a kind leave their room to visible ones.
	for i := range 80 {
		all = append(all, Tool{fmt.Sprintf("anvil_%02d", i), nil})
	}
	for i := range 100 {
		all = append(all, Tool{fmt.Sprintf("bucket_%02d", i), nil})
	}
	x.Update(all)
	if got := x.Search("anvil bucket", 10, func(name string) bool { return name >= "anvil_50" }); !slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, "bucket") }) {
		t.Errorf("of 30 of 80 anvils, and buckets: %v", got)
	}
	few := func(name string) bool { return name == "cms_get_page_v7" || name == "wiki_get_page_as_text" }
	if got := x.Search("get page", 5, few); !slices.Equal(got, []string{"cms_get_page_v7", "wiki_get_page_as_text"}) {
		t.Errorf("of two: %v", got)
	}
}

// A tool is found by its first texts, and costs an index no more than these, however many
// parameters it describes at length.
func TestLongTool(t *testing.T) {
	t.Parallel()
	properties := map[string]any{}
	for i := range 100 {
		properties[fmt.Sprintf("p%02d", i)] = map[string]any{"description": fmt.Sprintf("%s only%02d", strings.Repeat(fmt.Sprintf("word%02d ", i), 100), i)}
	}
	entry, err := json.Marshal(map[string]any{"description": "pays an invoice", "inputSchema": map[string]any{"properties": properties}})
	if err != nil {
		t.Fatal(err)
	}
	x := &Index{}
	x.Update([]Tool{{"pay", entry}})
	for query, want := range map[string]int{"invoice": 1, "only00": 1, "only09": 1, "only20": 0, "only99": 0} {
		if got := x.Search(query, 5, everything); len(got) != want {
			t.Errorf("%s finds %v", query, got)
		}
	}
}

// A service with endless words costs edges no more than others do.
func TestLongWord(t *testing.T) {
	t.Parallel()
	cost := func(text string) time.Duration {
		entry, err := json.Marshal(map[string]any{"description": text})
		if err != nil {
			t.Fatal(err)
		}
		least := time.Hour
		for range 5 {
			began := time.Now()
			(&Index{}).Update([]Tool{{"long", entry}})
			least = min(least, time.Since(began))
		}
		return least
	}
	var words strings.Builder
	for i := 0; words.Len() < maxText; i++ {
		fmt.Fprintf(&words, "w%dx%c ", i, 'a'+i%26)
	}
	others := cost(words.String()[:maxText]) // on this machine
	for _, letters := range []string{"xy", "щш"} {
		// It takes a fifth; it once took seven times as long.
		if took := cost(strings.Repeat(letters, maxText/len(letters))); took > others {
			t.Errorf("a word of %d bytes takes %v, and as many of short words %v", maxText, took, others)
		}
	}
}

// Any dictionary can be read, and words can be looked up in it.
func FuzzDictionary(f *testing.F) {
	for _, seed := range []string{"", "send,turn down,e-mail | wyślij,list= | отправ | 发送,发给\n# no line\na|b", "a b c,|||", "| | |", "\xff|=|=|=", "x,x x x,x|x y,x=|x|x"} {
		f.Add(seed, "turn it down 发送 x y")
	}
	f.Fuzz(func(t *testing.T, text, said string) {
		d := parse(text)
		words := strings.Fields(fold(said))
		d.said(words, map[string]*word{}, func(all []term) {
			if len(all) == 0 {
				t.Errorf("%q: a word without a term", said)
			}
		})
		d.chinese([]rune(said), func([]term) {})
		sounds(said)
	})
}

// Each line of the dictionary has four columns and names an idea that some word finds.
// The whole is small enough to be in each program.
func TestDictionary(t *testing.T) {
	t.Parallel()
	if len(list) > 300<<10 {
		t.Errorf("the dictionary has %d bytes", len(list))
	}
	for line := range strings.Lines(list) {
		if !strings.HasPrefix(line, "#") && (strings.Count(line, "|") != 3 || strings.HasPrefix(line, "|") || strings.HasPrefix(line, ",")) {
			t.Errorf("not an idea and its words in four languages: %s", line)
		}
	}
	for said, want := range map[string]string{
		"turn the invitation down": "reject", "usunąć": "delete", "usunac": "delete", "отправить": "send", "删除": "delete", "customers": "customer", "get rid of it": "delete",
	} {
		found := false
		terms(said, map[string]*word{}, func(all []term) {
			for _, t := range all {
				found = found || t.name == idea+want
			}
		})
		if !found {
			t.Errorf("%s is not to %s", said, want)
		}
	}
}

// A word that the dictionary lacks finds the word of another language that is written the
// same way, or nearly.
func TestAlike(t *testing.T) {
	t.Parallel()
	x := &Index{}
	x.Update([]Tool{{"bamboohr_sync", []byte(`{"description":"Talks to Quickbooks"}`)}, {"prometheus_ask", nil}, {"terraform_go", nil}})
	for said, want := range map[string]string{"прометеус": "prometheus_ask", "terafrom": "terraform_go", "quikbooks": "bamboohr_sync"} {
		if got := x.Search(said, 1, everything); len(got) != 1 || got[0] != want {
			t.Errorf("%s finds %v", said, got)
		}
	}
	x.Update(nil)
	if len(x.sounds) != 0 {
		t.Errorf("%d sounds of no words", len(x.sounds))
	}
}

func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"", "send an invoice", "wyślij FakturęDo", "отправь счёт", "发票abc发", "a_b-c.d/e", "\xff\xfe", "ß", "İ", "ﬁ́"} {
		f.Add(seed, "invoice_send")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		if !utf8.ValidString(name) {
			return
		}
		entry, err := json.Marshal(map[string]any{"description": text, "inputSchema": map[string]any{"properties": map[string]any{name: true, "p": map[string]any{"description": text}}}})
		if err != nil {
			return
		}
		x := &Index{}
		x.Update([]Tool{{name, entry}, {name + "x", []byte(text)}})
		for _, found := range x.Search(text, 5, everything) {
			if found != name && found != name+"x" {
				t.Fatal(found)
			}
		}
		x.Update(nil)
		if len(x.terms) != 0 || x.length != 0 {
			t.Fatalf("%v stays, of length %d", x.terms, x.length)
		}
	})
}

// A search does not wait until 10,000 tools have been read.
func TestSearchWhileToolsAreRead(t *testing.T) {
	t.Parallel()
	all, searches := fleet(t), 0
	for range 5 { // on a busy machine the search may stand still meanwhile
		if searches = searchWhileRead(t, all); searches >= 20 {
			return
		}
	}
	t.Errorf("%d searches while tools were read", searches)
}

// searchWhileRead counts the searches while an index reads tools, up to 200.
func searchWhileRead(t *testing.T, all []Tool) int {
	t.Helper()
	x := &Index{}
	x.Update(all[:400])
	begun, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		close(begun)
		x.Update(all)
	}()
	<-begun
	for n := 0; ; n++ {
		if len(x.Search("send an invoice", 5, everything)) == 0 {
			t.Fatal("nothing is found")
		}
		if n == 200 { // enough; more would only take processor time from the other
			<-done
		}
		select {
		case <-done:
			return n
		default:
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	x := &Index{}
	x.Update(fleet(b))
	b.ReportAllocs()
	for b.Loop() {
		x.Search("wyślij fakturę do klienta", 5, everything)
	}
}

func BenchmarkUpdate(b *testing.B) {
	all := fleet(b)
	without := append(slices.Clone(all[:400]), all[800:]...)
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			(&Index{}).Update(all)
		}
	})
	b.Run("one service of 400 goes and comes", func(b *testing.B) {
		x := &Index{}
		x.Update(all)
		for b.Loop() {
			x.Update(without)
			x.Update(all)
		}
	})
}
