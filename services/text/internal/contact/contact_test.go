package contact

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

const seed = "Свяжитесь с нами по email: example@email.com или посетите наш сайт https://example.com. Вы также можете позвонить по телефону +7 (123) 456-7890."

type finder = func(context.Context, string) ([]string, error)

type findTest struct {
	name, text string
	want       []string
}

func testFinder(t *testing.T, find finder, tests []findTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := find(t.Context(), tt.text)
			if err != nil || !slices.Equal(got, tt.want) {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if got == nil {
				t.Error("got nil")
			}
		})
	}
}

func TestEmails(t *testing.T) {
	t.Parallel()
	testFinder(t, Emails, []findTest{
		{"seed", seed, []string{"example@email.com"}},
		{"none", "no @ here, nor a@b, nor @handle, nor a@b.c, nor a@1.23", nil},
		{"end of sentence", "Write to a.b+c@d-e.co.uk. Now!", []string{"a.b+c@d-e.co.uk"}},
		{"brackets", "<jan@example.pl>, (ola@example.pl); mailto:ewa@example.pl", []string{"jan@example.pl", "ola@example.pl", "ewa@example.pl"}},
		{"once", "a@b.pl a@b.pl", []string{"a@b.pl"}},
		{"cyrillic", "почта@пример.рф", []string{"почта@пример.рф"}},
		{"chinese", "請寫信到test@example.com，謝謝", []string{"test@example.com"}},
		{"two dots", "a..b@c.pl .x@c.pl x.@c.pl", []string{"x@c.pl"}},
		{"two ats", "a@b@c.pl", []string{"b@c.pl"}},
		{"dash at end", "a@b.com-", []string{"a@b.com"}},
		{"long local", strings.Repeat("x", 65) + "@b.com", nil},
	})
}

func TestURLs(t *testing.T) {
	t.Parallel()
	testFinder(t, URLs, []findTest{
		{"seed", seed, []string{"https://example.com"}},
		{"none", "no :// here, a://, http://, 1.www.pl, example.com", nil},
		{"schemes", "weather://logs and nats://localhost:4222 or file:///etc/hosts", []string{"weather://logs", "nats://localhost:4222", "file:///etc/hosts"}},
		{"brackets", "(see https://en.wikipedia.org/wiki/Bus_(computing)) and [https://a.pl/x]", []string{"https://en.wikipedia.org/wiki/Bus_(computing)", "https://a.pl/x"}},
		{"query", `<a href="https://a.pl/?q=1&r=%20#top">`, []string{"https://a.pl/?q=1&r=%20#top"}},
		{"www", "Zob. www.example.pl, WWW.A.PL i https://www.b.pl.", []string{"www.example.pl", "WWW.A.PL", "https://www.b.pl"}},
		{"cyrillic", "сайт https://пример.рф/путь.", []string{"https://пример.рф/путь"}},
		{"chinese", "請訪問https://example.com/a了解更多。", []string{"https://example.com/a"}},
		{"once", "http://a.pl http://a.pl", []string{"http://a.pl"}},
	})
}

func TestPhones(t *testing.T) {
	t.Parallel()
	testFinder(t, Phones, []findTest{
		{"seed", seed, []string{"+7 (123) 456-7890"}},
		{"none", "2024-11-05, 2024-07-26 10:00, 1 000 000 000, 3.14159265, 192.168.100.200, 12345678901234567890, v1.2.3", nil},
		{"international", "+48 601 234 567; +1-202-555-0143; 0048 22 123 45 67; +8613812345678", []string{"+48 601 234 567", "+1-202-555-0143", "0048 22 123 45 67", "+8613812345678"}},
		{"no such country", "+999 123 456 789, +1 2", nil},
		{"american", "Call (202) 555-0143 or 202-555-0144.", []string{"(202) 555-0143", "202-555-0144"}},
		{"russian", "8 (495) 123-45-67, 89161234567", []string{"8 (495) 123-45-67", "89161234567"}},
		{"polish", "tel. 601 234 567, 22 123 45 67, kwota 600 000 000", []string{"601 234 567", "22 123 45 67"}},
		{"chinese", "电话13812345678或010-12345678。", []string{"13812345678", "010-12345678"}},
		{"in a word", "id4812345678, A+48601234567", nil},
		{"brackets do not match", "+7 (123 456-7890", nil},
	})
}

func TestStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, find := range map[string]finder{"emails": Emails, "urls": URLs, "phones": Phones} {
		if _, err := find(ctx, seed); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func FuzzFind(f *testing.F) {
	for _, s := range []string{seed, "a@b.c", "www.", "://", "+1 (", "x@y.zz@a.bb", "http://[::1", "WWW.x.y://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, find := range map[string]finder{"emails": Emails, "urls": URLs, "phones": Phones} {
			got, err := find(t.Context(), text)
			if err != nil || got == nil {
				t.Fatalf("%s: %v, %v", name, got, err)
			}
			for _, s := range got {
				if s == "" || !strings.Contains(text, s) {
					t.Fatalf("%s: %q is not in the text", name, s)
				}
			}
		}
	})
}

// Texts designed to make the scanners read the same bytes repeatedly.
func BenchmarkFind(b *testing.B) {
	const size = 1 << 20
	for name, unit := range map[string]string{
		"ats": "@", "locals": "a.", "domains": "@a.b-", "marks": "://", "www": "www.", "www space": "www. ", "emails": "a@b.pl ", "urls": "http://a.pl ",
		"digits": "1", "brackets": "(", "pluses": "+1 ", "close": "http://a.b)))))))))))))", "long": "http://a", "wwws": " www.a.pl/",
	} {
		text := strings.Repeat(unit, size/len(unit))
		b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) {
			for b.Loop() {
				for _, find := range []finder{Emails, URLs, Phones} {
					if _, err := find(b.Context(), text); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
