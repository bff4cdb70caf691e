package redact

import "strings"

// prefixes begin the credentials of well-known services; least is how many
// bytes have to follow.
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

// token finds a credential in a word, and where in it: some are written with
// something in front, such as a name and a dash.
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

// jwt reports whether a word is a JSON Web Token: a header, a body and perhaps a
// signature, with dots between.
func jwt(word string) bool {
	header, rest, ok := strings.Cut(word, ".")
	body, _, _ := strings.Cut(rest, ".")
	return ok && len(header) >= 10 && len(body) >= 8
}
