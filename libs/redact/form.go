package redact

import (
	"net/url"
	"strings"
)

// Forms of secrets in text besides assignments. Each looks around the word s[i:end], and reads
// no byte twice except those that it hides.

// webhooks lists beginnings of addresses whose rest is the secret.
var webhooks = []string{
	"hooks.slack.com/services/", "hooks.slack.com/workflows/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/",
	"api.telegram.org/bot", "outlook.office.com/webhook/",
}

// webhook finds the secret part of the address that starts at i.
func webhook(s string, i int) (from, to int, ok bool) {
	for _, w := range webhooks {
		if strings.HasPrefix(s[i:], w) {
			from = i + len(w)
			return from, valueEnd(s, from), true
		}
	}
	return 0, 0, false
}

// maxArgument bounds the argument of a flag with the spaces before it, in bytes.
const maxArgument = 4 << 10

// clients accept a password after -p, with or without a space.
var clients = set("mysql", "mysqldump", "mysqladmin", "mysqlimport", "mariadb", "sshpass")

// command is the state of reading a text that may be a command line.
type command struct {
	client bool // one of clients
	// words are the last four words, the latest first.
	words [4]string
}

// next records a word; s[at] follows the previous one.
func (c *command) next(between, word string) {
	if strings.ContainsAny(between, "\n;|&") {
		c.client = false
	}
	if clients[word] {
		c.client = true
	}
	copy(c.words[1:], c.words[:3])
	c.words[0] = word
}

// argument finds the argument of a flag: -u user:password, -p of some programs, and flags
// with secret names, such as --token.
func (c *command) argument(s, word string, i, end int) (from, to int, ok bool) {
	netrc := c.words[0] == "password" && c.words[2] == "login" && c.words[3] != ""
	if word[0] != '-' && !netrc {
		return 0, 0, false
	}
	// Bounded, because a text may be full of flags without a word after them.
	limit := min(len(s), end+maxArgument)
	s = s[:limit]
	from = skip(s, end, " \t'\"")
	to = valueEnd(s, from)
	switch {
	case netrc:
		return from, to, from > end && to > from
	case c.client && len(word) > 2 && word[:2] == "-p":
		return i + 2, valueEnd(s, end), true
	case c.client && word == "-p":
		return from, to, from > end && to > from && s[from] != '-'
	case word == "-u" || word == "--user" || word == "--proxy-user":
		colon := strings.IndexByte(s[from:to], ':')
		if colon <= 0 || strings.Trim(s[from+colon+1:to], "0123456789") == "" || strings.HasPrefix(s[from+colon:to], "://") {
			return 0, 0, false
		}
		return from + colon + 1, to, true
	case from > end && to > from && s[from] != '-' && Secret(word):
		return from, to, !placeholder(s[from:to])
	}
	return 0, 0, false
}

// placeholder reports whether a value is only a placeholder, as in help and documents.
func placeholder(s string) bool {
	return strings.IndexByte("<$[{%", s[0]) >= 0 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// marked finds a value in markup: <password>…</password> and
// key="Password" value="…".
func marked(s string, i, end int) (from, to int, ok bool) {
	if end < len(s) && s[end] == '>' && i > 0 && s[i-1] == '<' {
		to = strings.IndexByte(s[end:], '<')
		return end + 1, end + to, to > 1 && strings.HasPrefix(s[end+to:], "</")
	}
	at := skip(s, end, "\"' \t")
	if at == end || len(s)-at < 8 || !strings.EqualFold(s[at:at+5], "value") {
		return 0, 0, false
	}
	if at = skip(s, at+5, " \t"); s[at:] == "" || s[at] != '=' {
		return 0, 0, false
	}
	from = skip(s, at+1, " \t\"'")
	if from > 0 && (s[from-1] == '"' || s[from-1] == '\'') {
		to = quoteEnd(s, from, s[from-1])
	} else {
		to = valueEnd(s, from)
	}
	return from, to, to > from
}

// botToken finds a Telegram bot's token: digits, a colon, and 30 characters or
// more that begin with AA.
func botToken(s, word string, i, end int) (from, to int, ok bool) {
	if len(word) < 8 || len(word) > 11 || strings.Trim(word, "0123456789") != "" || !strings.HasPrefix(s[end:], ":AA") {
		return 0, 0, false
	}
	to = wordEnd(s, end+1)
	return i, to, to-end > 30
}

// escaped finds an assignment whose name or sign is percent-encoded, in the run of escapes and
// word bytes that starts at i. run is the end of that run.
func escaped(s string, i int) (from, to, run int, ok bool) {
	run = i
	escapes := false
	for run < len(s) && (wordByte(s[run]) || isEscape(s, run)) {
		if s[run] == '%' {
			escapes = true
			run += 2
		}
		run++
	}
	if !escapes {
		return 0, 0, run, false
	}
	name, sign := s[i:run], 1
	if at := strings.Index(strings.ToUpper(name), "%3D"); at >= 0 {
		name, sign = name[:at], 3
	} else if run == len(s) || s[run] != '=' {
		return 0, 0, run, false
	}
	// The value is searched for only if the name is secret: the search may reach the end of
	// the text, and there may be many names.
	if plain, err := url.PathUnescape(name); err != nil || !Secret(plain) {
		return 0, 0, run, false
	}
	from = i + len(name) + sign
	to = valueEnd(s, from)
	return from, to, run, to > from
}

func isEscape(s string, i int) bool {
	return s[i] == '%' && i+2 < len(s) && hex(s[i+1]) && hex(s[i+2])
}

func hex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F' }

// block returns the end of the YAML block, the indented lines, that begins with the
// indicator s[from:to]. For anything else it returns to.
func block(s string, from, to int) int {
	at := skip(s, from, "|>+-")
	if at == from || at > from+2 || s[from] == '+' || s[from] == '-' || at == len(s) || s[at] != '\n' {
		return to
	}
	to = at
	for to < len(s) && s[to] == '\n' && to+1 < len(s) && (s[to+1] == ' ' || s[to+1] == '\t') {
		to++
		for to < len(s) && s[to] != '\n' {
			to++
		}
	}
	return to
}

// headerEnd returns the end of the header value at from: the end of its line, or of the
// quotes around the whole header.
func headerEnd(s string, i, from int) int {
	if i > 0 && (s[i-1] == '"' || s[i-1] == '\'') {
		return quoteEnd(s, from, s[i-1])
	}
	// These have quotes of their own.
	if scheme := s[from:wordEnd(s, from)]; equalFold(scheme, "digest") || strings.HasPrefix(scheme, "AWS4-") {
		return quoteEnd(s, from, '\n')
	}
	return from + lineEnd(s[from:])
}

// prefixes lists the beginnings of credentials of well-known services; least is the
// smallest number of bytes after them.
var prefixes = []struct {
	text  string
	least int
}{
	{"ghp_", 20}, {"gho_", 20}, {"ghu_", 20}, {"ghs_", 20}, {"ghr_", 20}, {"github_pat_", 20}, // GitHub
	{"glpat-", 16}, {"glptt-", 16}, // GitLab
	{"AKIA", 16}, {"ASIA", 16}, // AWS
	{"xoxb-", 10}, {"xoxp-", 10}, {"xoxa-", 10}, {"xoxr-", 10}, {"xoxs-", 10}, {"xoxe", 10}, {"xapp-", 10}, // Slack
	{"AIza", 24}, {"ya29.", 16}, {"GOCSPX-", 16}, // Google
	{"sk-", 16}, {"sk_live_", 10}, {"sk_test_", 10}, {"rk_live_", 10}, {"rk_test_", 10}, {"whsec_", 16}, // OpenAI, Anthropic, Stripe
	{"npm_", 20}, {"pypi-", 20}, {"hf_", 20}, {"dop_v1_", 20}, {"SG.", 20}, {"shpat_", 16}, {"gsk_", 20}, {"xai-", 20}, {"hvs.", 16}, {"AGE-SECRET-KEY-", 16},
}

// token finds a credential in a word. Some credentials have a prefix, such as a name and a
// dash.
func token(word string) (at int, ok bool) {
	if len(word) < 13 {
		return 0, false
	}
	for _, p := range prefixes {
		i := strings.Index(word, p.text)
		if i < 0 || len(word)-i-len(p.text) < p.least {
			continue
		}
		if i == 0 || !alphanumeric(word[i-1]) {
			return i, true
		}
	}
	if i := strings.Index(word, "eyJ"); i >= 0 && jwt(word[i:]) {
		return i, true
	}
	return 0, false
}

func alphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// jwt reports whether a word is a JSON Web Token: a header, a body and perhaps a signature,
// separated by dots.
func jwt(word string) bool {
	header, rest, ok := strings.Cut(word, ".")
	body, _, _ := strings.Cut(rest, ".")
	return ok && len(header) >= 10 && len(body) >= 8
}
