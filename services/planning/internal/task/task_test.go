package task_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// shape writes down what was read: "id type text" a line.
func shape(t *task.Task) string {
	var b strings.Builder
	for _, d := range t.Demands {
		b.WriteString(d.ID + " " + string(d.Type) + " " + d.Text + "\n")
	}
	return strings.TrimSpace(b.String())
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text         string
		requirements []string
		kind         task.Kind
		want         string
	}{
		"English clauses": {"Build a web app, then deploy it to staging. The old one must not be touched.", nil, task.Build,
			"T1 action Build a web app\nT2 action then deploy it to staging\nT3 prohibition The old one must not be touched"},
		"Polish clauses": {"Zbuduj aplikację do faktur i wdróż ją na serwerze. Hasła nie mogą być zapisywane.", []string{"Czas odpowiedzi poniżej 2 s"}, task.Build,
			"T1 action Zbuduj aplikację do faktur\nT2 action wdróż ją na serwerze\nT3 prohibition Hasła nie mogą być zapisywane\nR1 property Czas odpowiedzi poniżej 2 s"},
		"Russian clauses": {"Исправить ошибку в отчёте, затем обновить документацию. Почему её не нашли тесты?", nil, task.Fix,
			"T1 action Исправить ошибку в отчёте\nT2 action затем обновить документацию\nT3 question Почему её не нашли тесты?"},
		"Chinese clauses": {"开发一个订单查询服务，然后部署到生产环境。不得泄露用户密码。", nil, task.Build,
			"T1 action 开发一个订单查询服务\nT2 action 然后部署到生产环境\nT3 prohibition 不得泄露用户密码"},
		"a list under a heading": {"Build a CLI tool:\nFeatures:\n- reads JSON\n- writes CSV\n", nil, task.Build,
			"T1 action Build a CLI tool\nT2 property reads JSON\nT3 property writes CSV"},
		"a goal over a list": {"Build a web shop:\n1. cart\n2. payment", nil, task.Build,
			"T1 action Build a web shop\nT2 property cart\nT3 property payment"},
		"marks of specifications": {"Implement the protocol handler of the service", []string{"[FR-1] Servers must log calls", "2) Errors are clear"}, task.Build,
			"T1 action Implement the protocol handler of the service\nR1 property Servers must log calls\nR2 property Errors are clear"},
		"lines wrapped by hand": {"Write a report about the noise\nin the old town.", nil, task.Write, "T1 action Write a report about the noise in the old town"},
		"abbreviations and decimals": {"Upgrade to version 2.5, e.g. on the test server.", nil, task.Migrate,
			"T1 action Upgrade to version 2.5, e.g. on the test server"},
		"a requirement of two clauses": {"Organise a party", []string{"Book a large hall and invite all the neighbours"}, task.Event,
			"T1 action Organise a party\nR1.1 action Book a large hall\nR1.2 action invite all the neighbours"},
		"a polite beginning":     {"We need to migrate the wiki to Git", nil, task.Migrate, "T1 action We need to migrate the wiki to Git"},
		"only a name":            {"Zażółć gęślą jaźń", nil, task.General, "T1 action Zażółć gęślą jaźń"},
		"a limit forbids naught": {"Buy a car", []string{"not more than 10 years old"}, task.Buy, "T1 action Buy a car\nR1 property not more than 10 years old"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := task.Read(tt.text, tt.requirements, "")
			if s := shape(got); s != tt.want {
				t.Errorf("got\n%s\nwant\n%s", s, tt.want)
			}
			if got.Kind != tt.kind {
				t.Errorf("kind %s, want %s; evidence %q", got.Kind, tt.kind, got.Evidence)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"p99 latency under 200 ms":                 "p99 ≤ 200 ms",
		"at least 1,000 users at 99.9% uptime":     "≥ 1,000 users; 99.9%",
		"costs €6,000 or less":                     "≤ €6,000",
		"throughput >= 500 rps":                    "≥ 500 rps",
		"nie więcej niż 40 000 zł":                 "≤ 40 000 zł",
		"время ответа не более 2 секунд":           "≤ 2 секунд",
		"не менее чем на 4 сегмента":               "≥ 4",
		"响应时间不超过1秒":                                "≤ 1秒",
		"保固三年以上":                                   "≥ 三年",
		"from Exchange 2016 to Microsoft 365":      "",
		"do Microsoft 365":                         "",
		"in two weeks":                             "",
		"within 30 minutes and about 5 GB of disk": "≤ 30 minutes; ≈ 5 GB",
	} {
		var got []string
		for _, l := range task.Read(text, nil, "").Demands[0].Limits {
			got = append(got, l.String())
		}
		if s := strings.Join(got, "; "); s != want {
			t.Errorf("%s: got %q, want %q", text, s, want)
		}
	}
}

func TestDates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Deliver by 1 March 2027":          "1 March 2027",
		"Finish before 2027-03-01":         "2027-03-01",
		"Send it by Friday":                "Friday",
		"Broken since Friday":              "",
		"Wysłać raport do 15 maja":         "15 maja",
		"Сдать отчёт до 1 октября":         "1 октября",
		"3月15日前上线":                         "3月15日",
		"You may see it":                   "",
		"Event in May":                     "",
		"Zgłoszenia przyjmujemy do piątku": "piątku",
		"Подготовить к понедельнику доклад":  "понедельнику",
		"version 3.8 of the billing service": "",
	} {
		if got := task.Read(text, nil, "").Demands[0].Due; got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// hostile are texts chosen to be hard on one step or another.
func hostile() map[string]string {
	const size = 64 << 10
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	return map[string]string{
		"clauses": fill("a;"), "verbs": fill("add "), "sentences": fill("Fix it. "), "lines": fill("- x\n"), "commas": fill("add a, "),
		"Han": fill("测"), "Han sentences": fill("修复。"), "marks": fill("a\u0301"), "right to left": fill("\u202eعربي "), "emoji": fill("👩‍👩‍👧 "),
		"control": fill("\x00\x1b[2J"), "bad UTF-8": fill("\xff\xfe"), "numbers": fill("1 "), "digits": fill("9"), "one word": fill("x"),
		"brackets": fill("(add a, "), "quotes": fill("\"add a, "), "before": fill("before "), "headings": fill("x:\n- y\n"), "colons": fill(":"),
		"then": fill("then add x "), "ideographic spaces": fill("加　"),
	}
}

func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Linear cost: five seconds are hundreds of times the usual time. Other programs can
			// only make it slower, so one fast run in three is enough.
			took := time.Hour
			for n := 0; n < 3 && took > 5*time.Second; n++ {
				start := time.Now()
				got := task.Read(text, nil, "")
				took = time.Since(start)
				if n := len(got.Demands); n < 1 || n > 60 {
					t.Errorf("%d demands", n)
				}
			}
			if took > 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
	t.Run("a hundred long requirements", func(t *testing.T) {
		t.Parallel()
		requirements := make([]string, 100)
		for i := range requirements {
			requirements[i] = strings.Repeat("Add a, then fix b. ", 30)
		}
		if n := len(task.Read("Build an app", requirements, "").Demands); n < 101 || n > 161 {
			t.Errorf("%d demands", n)
		}
	})
}

// FuzzRead: for any input, the result is limited, valid and complete.
func FuzzRead(f *testing.F) {
	f.Add("Build a web app, then deploy it. p99 under 200 ms!", "Must not lose data")
	f.Add("Перенести почту с сервера A на B до 1 октября", "не более 2 часов")
	f.Add("3月15日前上线，然后通知用户", "每台至少32GB以上")
	f.Add("- a\n- b:\n1) c", "„x, dodaj y” i z")
	f.Fuzz(func(t *testing.T, text, requirement string) {
		if len(text)+len(requirement) > 8<<10 {
			t.Skip()
		}
		got := task.Read(text, []string{requirement}, "")
		if got.Goal < 0 || got.Goal >= len(got.Demands) || len(got.Demands) > 160 {
			t.Fatalf("goal %d of %d demands", got.Goal, len(got.Demands))
		}
		letters := map[rune]int{}
		for _, d := range got.Demands {
			if !utf8.ValidString(d.Text) || strings.ContainsAny(d.Text, "\x00\x1b\u202e") {
				t.Fatalf("%q", d.Text)
			}
			if !strings.Contains(d.Text, d.Shown) {
				t.Fatalf("shown %q of %q", d.Shown, d.Text)
			}
			for _, r := range d.Text {
				letters[r]++
			}
		}
		for _, word := range []string{"app", "почт", "上线"} {
			for _, r := range word {
				if strings.ContainsRune(task.Clean(text), r) && letters[r] == 0 {
					t.Fatalf("%q is lost from %q", r, text)
				}
			}
		}
	})
}

func TestLanguageOfThePlan(t *testing.T) {
	t.Parallel()
	read := task.Read("Zbudować aplikację do rezerwacji sal", []string{"Zgodność z RODO"}, words.English)
	if read.Language != words.English || read.Kind != task.Build || !read.Demands[1].About("privacy") {
		t.Errorf("read as %s, %s, %v", read.Language, read.Kind, read.Demands[1].Topics)
	}
}
