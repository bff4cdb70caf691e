package words_test

import (
	"strings"
	"testing"

	"github.com/busbar-mcp/busbar/services/planning/internal/words"
)

func TestCut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"words and numbers":        {"p99 under 200ms, 99.9 %", "p99|under|200|ms|99.9"},
		"dates and versions":       {"by 2026-03-01 on MySQL 5.7.", "by|2026-03-01|on|mysql|5.7"},
		"one token a Han":          {"支援32GB記憶體", "支|援|32|gb|记|忆|体"},
		"folded":                   {"Ещё Żółć don’t", "еще|żółć|don't"},
		"hyphens inside words":     {"zero-downtime - fast", "zero-downtime|fast"},
		"nothing but punctuation":  {"… !? ---", ""},
		"a mark at the end of one": {"1,2,x", "1,2|x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, token := range words.Cut(tt.text) {
				got = append(got, token.Text)
				if token.Start >= token.End || token.End > len(tt.text) {
					t.Errorf("offsets %d, %d", token.Start, token.End)
				}
			}
			if s := strings.Join(got, "|"); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

func TestDetect(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]words.Language{
		"Migrate the service to Go":                        words.English,
		"Przenieś usługę do Go i sprawdź ją":               words.Polish,
		"Dodaj eksport do CSV":                             words.Polish,
		"Перенести сервис billing-api на PostgreSQL":       words.Russian,
		"把服务从MySQL迁移到PostgreSQL":                           words.Chinese,
		"Migrate billing from MySQL: order-service, 订单":    words.English,
		"Настроить Prometheus Grafana Alertmanager":        words.Russian,
		"Add a Polish greeting to the page of the service": words.English,
	} {
		if got, sure := words.Detect(text); got != want || !sure {
			t.Errorf("%s: got %s, sure %v", text, got, sure)
		}
	}
	for _, text := range []string{"", "123", "エラーをなおす", "إصلاح الخطأ"} {
		if _, sure := words.Detect(text); sure {
			t.Errorf("%q: sure", text)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		language words.Language
		text     string
		want     string // class:name=words, of the classes act, cmp and topic
	}{
		"the longest of a class":  {words.English, "no more than five", "cmp:max=no more than"},
		"a prefix":                {words.Russian, "восстановить производительность", "act:restore=восстановить topic:performance=производительность"},
		"several words":           {words.Polish, "zrób kopię zapasową", "act:backup=zrób kopię topic:dataloss=kopię zapasową"},
		"Han without spaces":      {words.Chinese, "测试响应时间", "act:test=测试 topic:performance=响应时间"},
		"traditional characters":  {words.Chinese, "測試響應時間", "act:test=測試 topic:performance=響應時間"},
		"words of every language": {words.Russian, "через OAuth2", "topic:security=OAuth2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tokens := words.Cut(tt.text)
			var got []string
			for _, h := range words.For(tt.language).Find(tokens) {
				if h.Class == "act" || h.Class == "cmp" || h.Class == "topic" {
					got = append(got, h.Class+":"+h.Name+"="+tt.text[tokens[h.From].Start:tokens[h.To-1].End])
				}
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %s, want %s", s, tt.want)
			}
		})
	}
}

func TestTraditional(t *testing.T) {
	t.Parallel()
	if got := words.Traditional("测试数据库"); got != "測試數據庫" {
		t.Errorf("got %s", got)
	}
	if !words.IsTraditional("為研發部門採購筆記型電腦") || words.IsTraditional("为研发部门采购笔记本电脑") || words.IsTraditional("hello") {
		t.Error("traditional and simplified are confused")
	}
}
