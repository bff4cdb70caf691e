package plan_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/planning/internal/plan"
	"github.com/busbar-mcp/busbar/services/planning/internal/task"
	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

// sound checks the properties that every plan must have.
func sound(t *testing.T, read *task.Task, p *plan.Plan) {
	t.Helper()
	var ids []string
	for _, r := range p.Requirements {
		ids = append(ids, r.ID)
		if len(r.Steps) == 0 {
			t.Errorf("%s is not covered: %q", r.ID, r.Text)
		}
	}
	if problems := plan.Validate(p.Steps, ids); len(problems) > 0 {
		t.Errorf("problems: %+v", problems)
	}
	if len(p.Requirements) != len(read.Demands) || len(p.Steps) == 0 || len(p.Steps) > plan.MaxSteps {
		t.Errorf("%d requirements of %d demands, %d steps", len(p.Requirements), len(read.Demands), len(p.Steps))
	}
	actions := plan.Actions()
	for i, s := range p.Steps {
		if s.ID != i+1 || !slices.Contains(actions, s.Action) {
			t.Errorf("step %d has id %d, action %s", i+1, s.ID, s.Action)
		}
		for _, d := range s.DependsOn {
			if d >= s.ID || p.Steps[d-1].Phase >= s.Phase {
				t.Errorf("step %d of phase %d depends on %d of phase %d", s.ID, s.Phase, d, p.Steps[d-1].Phase)
			}
		}
		for _, text := range []string{s.Description, s.Check} {
			if n := utf8.RuneCountInString(text); n < 2 || n > 1200 || !utf8.ValidString(text) || strings.ContainsAny(text, "{}\n") && !strings.ContainsAny(read.Demands[0].Text+read.Demands[len(read.Demands)-1].Text, "{}") {
				t.Errorf("step %d: %q", s.ID, text)
			}
		}
	}
	at := 0
	for i, ph := range p.Phases {
		if ph.ID != i+1 || ph.Name == "" {
			t.Errorf("phase %d: %+v", i+1, ph)
		}
		for _, id := range ph.Steps {
			if at++; id != at || p.Steps[id-1].Phase != ph.ID {
				t.Errorf("phase %d has step %d", ph.ID, id)
			}
		}
	}
	if at != len(p.Steps) {
		t.Errorf("phases have %d steps of %d", at, len(p.Steps))
	}
}

// snippets are the parts of random tasks.
var snippets = map[words.Language][]string{
	words.English: {"Build a web shop", "fix the crash when the basket is empty", "migrate from MySQL to PostgreSQL", "p99 under 200 ms", "no data may be lost", "then deploy it", "before the launch, train 20 people",
		"only admins may delete", "roll back within 5 minutes", "write the user guide", "interview 8 users", "budget at most €500", "by 1 March", "first agree on the scope", "finally celebrate", "Why is it slow?", "the office is in Gdynia", "WCAG 2.1", "Stripe payments", "after the deployment, watch the metrics", "must not store passwords"},
	words.Polish: {"Zbuduj sklep internetowy", "napraw błąd w koszyku", "przenieś bazę z MySQL do PostgreSQL", "czas odpowiedzi poniżej 200 ms", "żadne dane nie mogą zginąć", "potem wdróż", "najpierw uzgodnij zakres", "na koniec napisz raport",
		"przeszkol 20 osób przed uruchomieniem", "budżet najwyżej 500 zł", "do 1 marca", "hasła nie mogą być jawne", "kup trzy laptopy", "zorganizuj spotkanie dla 30 osób"},
	words.Russian: {"Создать интернет-магазин", "исправить ошибку в корзине", "перенести данные с MySQL на PostgreSQL", "время ответа не более 200 мс", "данные не должны теряться", "затем развернуть", "сначала согласовать объём",
		"в конце написать отчёт", "обучить 20 сотрудников перед запуском", "бюджет не больше 500 рублей", "до 1 марта", "нельзя хранить пароли", "купить ноутбук", "выучить немецкий язык"},
	words.Chinese: {"开发一个网上商店", "修复购物车错误", "把数据从MySQL迁移到PostgreSQL", "响应时间不超过200毫秒", "不得丢失数据", "然后部署上线", "首先确定范围", "最后撰写报告", "上线前培训20人", "预算不超过500元", "3月1日前完成", "不得保存密码", "采购20台电脑", "組織一場研討會"},
}

func random(r *rand.Rand) (string, []string) {
	l := words.Languages[r.IntN(len(words.Languages))]
	pick := func() string {
		from := snippets[l]
		if r.IntN(20) == 0 {
			from = snippets[words.Languages[r.IntN(len(words.Languages))]]
		}
		return from[r.IntN(len(from))]
	}
	stop := ". "
	if l == words.Chinese {
		stop = "。"
	}
	var text strings.Builder
	for range 1 + r.IntN(6) {
		text.WriteString(pick() + []string{stop, ", ", "; ", "\n- "}[r.IntN(4)])
	}
	requirements := make([]string, r.IntN(12))
	for i := range requirements {
		requirements[i] = pick()
	}
	return text.String(), requirements
}

func TestEveryPlanIsSound(t *testing.T) {
	t.Parallel()
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 7))
		text, requirements := random(r)
		read := task.Read(text, requirements, "")
		p := plan.Make(read)
		sound(t, read, p)
		again := plan.Make(task.Read(text, requirements, ""))
		if !reflect.DeepEqual(p.Steps, again.Steps) || !reflect.DeepEqual(p.Phases, again.Phases) || !reflect.DeepEqual(p.Requirements, again.Requirements) {
			t.Error("a second run gives another plan")
		}
		if t.Failed() {
			t.Fatalf("seed %d: %q %q", seed, text, requirements)
		}
	}
}

// Each kind of work, in each plan language, whatever the language of the text.
func TestEveryKindHasWordsInEveryLanguage(t *testing.T) {
	t.Parallel()
	goals := map[task.Kind]string{
		task.Build: "Build a web service", task.Fix: "Fix the crash of the app", task.Migrate: "Migrate the database from A to B", task.Investigate: "Investigate why users leave", task.Write: "Write an article",
		task.Analysis: "Analyse the sales data", task.Incident: "Restore the service after the outage", task.Event: "Organise a conference", task.Learn: "Learn for the exam", task.Buy: "Buy a laptop", task.General: "Paint the fence",
	}
	extras := []string{"p99 under 200 ms", "passwords are encrypted", "personal data is deleted", "no data may be lost", "zero downtime", "roll back at any time", "works in old browsers", "screen reader", "in three languages", "Prometheus metrics", "Stripe webhook", "a page with a form",
		"budget €5", "deadline 1 May", "license is clear", "unit tests", "documentation", "steering committee approval", "training", "newsletter", "hall", "vegan catering", "hotel", "guests", "rain", "canary rollout"}
	for kind, goal := range goals {
		for _, l := range words.Languages {
			t.Run(fmt.Sprintf("%s in %s", kind, l), func(t *testing.T) {
				t.Parallel()
				// The English lists read it, other words write it.
				read := task.Read(goal, extras, words.English)
				if read.Kind != kind {
					t.Fatalf("%s is read as %s", goal, read.Kind)
				}
				read.Language = l
				sound(t, read, plan.Make(read))
			})
		}
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		"clauses": "add a; ", "topics": "p99 latency and passwords, add Stripe payment page; ", "lines": "- Build x and test y\n", "moves": "migrate from a to b. ",
		"order": "First add a. Then add b before a. Finally add c after b. ", "emoji": "👩‍👩‍👧 fix! ", "right to left": "\u202eعربي. ", "control": "\x00fix\x1b[2J; ",
	}
	for name, unit := range texts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requirements := make([]string, 100)
			for i := range requirements {
				requirements[i] = strings.Repeat(unit, 300/len(unit)+1)
			}
			// Other programs can only make it slower, so one fast run in three is enough.
			var read *task.Task
			var p *plan.Plan
			took := time.Hour
			for n := 0; n < 3 && took > 10*time.Second; n++ {
				start := time.Now()
				read = task.Read(strings.Repeat(unit, (32<<10)/len(unit)), requirements, "")
				p = plan.Make(read)
				took = time.Since(start)
			}
			if took > 10*time.Second {
				t.Errorf("took %v", took)
			}
			sound(t, read, p)
			size := 0
			for _, s := range p.Steps {
				size += len(s.Description) + len(s.Check) + 8*len(s.DependsOn) + 8*len(s.Covers)
			}
			if size > 1<<20 {
				t.Errorf("the plan has %d bytes", size)
			}
		})
	}
}

func TestOrderOfTheText(t *testing.T) {
	t.Parallel()
	// Each pair is of beginnings of descriptions: the second waits for the first.
	for name, tt := range map[string]struct {
		text, before, after string
	}{
		"then":            {"Build an app with a search page. Add export to CSV, then add import from CSV.", "Add export", "Add import"},
		"first":           {"Build an app. Add comments. First agree on the roles.", "Agree on", "Build an app"},
		"before":          {"Build an app for orders. Notify the support team before you enable the refunds. Enable the refunds.", "Notify the support", "Enable the refunds"},
		"after":           {"Build an app for orders. After importing the catalogue, add the search box. Import the catalogue.", "Import the cat", "After importing"},
		"made, then used": {"Build an app for a library. Create a catalogue of books. Connect the scanner of the front desk with the catalogue.", "Create a cat", "Connect the"},
		"Polish":          {"Zbuduj aplikację do zamówień. Dodaj eksport faktur, następnie dodaj wyszukiwarkę.", "Dodaj eksport", "Dodaj wyszukiwarkę"},
		"Russian":         {"Создать приложение для заказов. Добавить экспорт счетов, затем добавить поиск.", "Добавить экспорт", "Добавить поиск"},
		"Chinese":         {"开发一个订单应用。添加发票导出功能，然后添加搜索功能。", "添加发票", "添加搜索"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan.Make(task.Read(tt.text, nil, ""))
			from, to := begins(p, tt.before), begins(p, tt.after)
			if from == 0 || to == 0 || !waits(p, to, from) {
				t.Errorf("%q is %d, %q is %d in %+v", tt.before, from, tt.after, to, p.Steps)
			}
		})
	}
}

func begins(p *plan.Plan, with string) int {
	for _, s := range p.Steps {
		if strings.HasPrefix(s.Description, with) {
			return s.ID
		}
	}
	return 0
}

func waits(p *plan.Plan, id, on int) bool {
	for _, d := range p.Steps[id-1].DependsOn {
		if d == on || waits(p, d, on) {
			return true
		}
	}
	return false
}

func TestChecksComeFromTheText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Build a web service. p99 latency under 200 ms.":         "Measured: p99 ≤ 200 ms.",
		"Fix the crash when the basket of the guest is empty":    "Tried in this case: “when the basket of the guest is empty”.",
		"Write a report of at most 10 pages by 1 March 2027":     "Measured: ≤ 10 pages. Done by 1 March 2027.",
		"Zbuduj aplikację. Czas odpowiedzi poniżej 2 sekund.":    "Pomiar: ≤ 2 sekund.",
		"Создать сервис заказов. Время ответа не более 2 секунд": "Измерено: ≤ 2 секунд.",
		"开发一个订单服务。响应时间不超过1秒。":                                    "实测：≤ 1秒。",
	} {
		p := plan.Make(task.Read(text, nil, ""))
		if !slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return strings.HasSuffix(s.Check, want) }) {
			t.Errorf("%s: no check ends in %q: %+v", text, want, p.Steps)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	steps := []plan.Step{{ID: 1}, {ID: 2}, {ID: 3, DependsOn: []int{1, 2, 2}}, {ID: 9, DependsOn: []int{3}}}
	for name, tt := range map[string]struct {
		done []int
		want string
	}{
		"nothing done": {nil, "ready [1 2] waiting [{3 [1 2]} {9 [3]}]"},
		"one done":     {[]int{2}, "ready [1] waiting [{3 [1]} {9 [3]}]"},
		"two done":     {[]int{2, 1}, "ready [3] waiting [{9 [3]}]"},
		"all done":     {[]int{1, 2, 3, 9}, "ready [] waiting []"},
	} {
		ready, waiting := plan.Next(steps, tt.done)
		ids := []int{}
		for _, s := range ready {
			ids = append(ids, s.ID)
		}
		if got := fmt.Sprintf("ready %v waiting %v", ids, waiting); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	ok := func(s plan.Step) plan.Step { s.Action, s.Description = "a", "d"; return s }
	for name, tt := range map[string]struct {
		steps        []plan.Step
		requirements []string
		want         []string
	}{
		"sound":                    {[]plan.Step{ok(plan.Step{ID: 2, Covers: []string{"R1"}}), ok(plan.Step{ID: 1, DependsOn: []int{2}})}, []string{"R1"}, nil},
		"coverage is not asked":    {[]plan.Step{ok(plan.Step{ID: 1, Covers: []string{"x"}})}, nil, nil},
		"a circle":                 {[]plan.Step{ok(plan.Step{ID: 1, DependsOn: []int{2}}), ok(plan.Step{ID: 2, DependsOn: []int{1}})}, nil, []string{plan.Cycle}},
		"a step before itself":     {[]plan.Step{ok(plan.Step{ID: 1, DependsOn: []int{1}})}, nil, []string{plan.Cycle}},
		"an id twice":              {[]plan.Step{ok(plan.Step{ID: 1}), ok(plan.Step{ID: 1})}, nil, []string{plan.DuplicateID}},
		"an unknown dependency":    {[]plan.Step{ok(plan.Step{ID: 1, DependsOn: []int{7}})}, nil, []string{plan.UnknownDependency}},
		"an unknown requirement":   {[]plan.Step{ok(plan.Step{ID: 1, Covers: []string{"R1", "R9"}})}, []string{"R1"}, []string{plan.UnknownCoverage}},
		"a requirement left out":   {[]plan.Step{ok(plan.Step{ID: 1, Covers: []string{"R1"}})}, []string{"R1", "R2"}, []string{plan.NotCovered}},
		"a step without words":     {[]plan.Step{{ID: 1}}, nil, []string{plan.Empty}},
		"no more than 100 at once": {make([]plan.Step, 300), nil, slices.Concat([]string{plan.Empty}, slices.Repeat([]string{plan.DuplicateID}, 99))},
	} {
		var got []string
		for _, p := range plan.Validate(tt.steps, tt.requirements) {
			got = append(got, p.Code)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	for _, n := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%d-requirements", n), func(b *testing.B) {
			requirements := make([]string, n)
			for i := range requirements {
				requirements[i] = fmt.Sprintf("Add the %s page with export %d under 200 ms, then notify users", []string{"order", "stock", "price"}[i%3], i)
			}
			for b.Loop() {
				plan.Make(task.Read("Build a web shop for a library", requirements, ""))
			}
		})
	}
}
