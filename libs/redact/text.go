package redact

import (
	"strings"
)

// Secret names, in lower case with only letters and digits: whole names, endings, and
// parts.
var (
	wholeNames = set("auth", "xauth", "bearer", "jwt", "otp", "pin", "cvv", "cvc", "tokens", "sid", "pwd", "pass", "pw", "dsn",
		"connectionstring", "connstr", "credentials", "credential", "cookies", "csrf", "xsrf", "sas", "seed", "mnemonic",
		"passcode", "passcodes", "pincode", "otpcode", "totp", "hmac", "assertion", "clientassertion", "codeverifier", "samlresponse", "samlassertion",
		"recoverycode", "recoverycodes", "backupcode", "backupcodes", "securityanswer", "kubeconfig", "cardnumber", "passwort", "motdepasse", "contrasena", "senha")
	endings = []string{"token", "cookie", "pwd", "accesskey", "accesskeyid", "authkey", "signingkey", "encryptionkey", "secretkey", "accesstokens", "refreshtokens", "keymaterial",
		"accountkey", "sshkey", "masterkey", "deploykey", "licensekey", "dbpass", "userpass", "mysqlpass", "adminpass", "rootpass", "smtppass", "ftppass", "loginpass", "sshpass",
		"sessionid", "sessid", "webhookurl"}
	// weak names are also words of prose: in text they count only directly before an equals
	// sign.
	weak = set("sig", "signature", "session", "xamzsignature", "sharedaccesssignature", "xgoogsignature")
	// foreign names have letters outside ASCII.
	foreign  = set("пароль", "contraseña", "密码", "パスワード")
	anywhere = []string{"password", "passwd", "passphrase", "secret", "apikey", "privatekey", "authorization", "credential"}
)

// endingsBy and anywhereBy index these lists by the last and the first byte of a word: every
// name and every word of a recorded text is compared with them.
var endingsBy, anywhereBy [256][]string

func init() {
	for _, e := range endings {
		last := e[len(e)-1]
		endingsBy[last] = append(endingsBy[last], e)
	}
	for _, a := range anywhere {
		anywhereBy[a[0]] = append(anywhereBy[a[0]], a)
	}
}

func set(words ...string) map[string]bool {
	m := map[string]bool{}
	for _, w := range words {
		m[w] = true
	}
	return m
}

// maxName is how many bytes of a name are examined, from its end.
const maxName = 128

// Secret reports whether the name of a member, a header, a variable or a flag indicates a
// secret value: password, api_key, X-Auth-Token and the like. Case and separators do not
// matter.
func Secret(name string) bool {
	secret, weak := named(name)
	return secret || weak
}

// named reports whether a name indicates a secret, and whether it is only a weak one.
func named(name string) (secret, onlyWeak bool) {
	if len(name) > maxName {
		name = name[len(name)-maxName:]
	}
	var buf [maxName]byte
	n := 0
	for i := range len(name) {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			buf[n] = c
			n++
		}
	}
	plain := string(buf[:n])
	for _, how := range []string{"b64", "base64", "hex"} { // an encoding, not part of the name
		plain = strings.TrimSuffix(plain, how)
	}
	n = len(plain)
	if wholeNames[plain] {
		return true, false
	}
	if n > 0 {
		for _, e := range endingsBy[plain[n-1]] {
			if strings.HasSuffix(plain, e) {
				return true, false
			}
		}
	}
	for i := range n {
		for _, a := range anywhereBy[plain[i]] {
			if strings.HasPrefix(plain[i:], a) {
				return true, false
			}
		}
	}
	if n < len(name) && foreign[strings.ToLower(name)] {
		return true, false
	}
	return false, weak[plain]
}

// Text returns a text with its secrets replaced: tokens and keys of well-known forms, JSON Web
// Tokens, the value after Bearer and Basic, PEM blocks, passwords in URLs, webhook addresses,
// passwords in command lines, and the values of assignments to secret names, also in markup.
// Time is in proportion to the text.
func Text(s string) string {
	if len(s) < 4 {
		return s
	}
	var out strings.Builder
	done := 0 // s[:done] is written
	hide := func(from, to int) {
		out.WriteString(s[done:from])
		out.WriteString(Marker)
		done = to
	}
	var line command
	run, last := 0, 0 // where to search for escapes next, and where the last word ended
	for i := 0; i < len(s); {
		if i >= run && (wordByte(s[i]) || isEscape(s, i)) {
			from, to, end, ok := escaped(s, i)
			if run = end; ok {
				hide(from, to)
				i, last, run = to, to, to
				continue
			}
		}
		switch {
		case strings.HasPrefix(s[i:], pemBegin):
			end := pemEnd(s, i)
			hide(i, end)
			i = end
			continue
		case !wordByte(s[i]):
			i++
			continue
		}
		end := i + 1
		for end < len(s) && wordByte(s[end]) {
			end++
		}
		word := s[i:end]
		line.next(s[last:i], word)
		from, to, ok := secretAt(s, word, i, end)
		if !ok {
			from, to, ok = line.argument(s, word, i, end)
		}
		if ok {
			hide(from, to)
			end = max(end, to)
		}
		i, last = end, end
	}
	if done == 0 {
		return s
	}
	out.WriteString(s[done:])
	return out.String()
}

// wordByte reports whether a byte may be part of a token or a name.
func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}

// secretAt finds a secret in or after the word s[i:end].
func secretAt(s, word string, i, end int) (from, to int, ok bool) {
	if at, ok := token(word); ok {
		return i + at, end, true
	}
	// user:password@ of a URL. The user may be empty.
	if strings.HasPrefix(s[end:], "://") {
		if from, to, ok := webhook(s, end+3); ok {
			return from, to, to > from
		}
		return userinfo(s, end+3)
	}
	if from, to, ok := botToken(s, word, i, end); ok {
		return from, to, true
	}
	if equalFold(word, "private-lines") { // of PuTTY: a number, and the key to the end
		from = quoteEnd(s, end, '\n')
		return from, len(s), from < len(s)
	}
	if equalFold(word, "bearer") || equalFold(word, "basic") || equalFold(word, "token") {
		if from := skip(s, end, " \t"); from > end {
			if to := valueEnd(s, from); to-from >= 8 && (equalFold(word, "bearer") || !isWord(s[from:to])) {
				return from, to, true
			}
		}
	}
	secret, onlyWeak := named(word)
	switch {
	case onlyWeak && end < len(s) && s[end] == '=':
	case !secret:
		return 0, 0, false
	}
	if from, to, ok := marked(s, i, end); ok {
		return from, to, true
	}
	// An assignment: name, quotes and spaces, = or :, quotes and spaces, value.
	at := skip(s, end, " \t\"'\\")
	if at == len(s) || s[at] != '=' && s[at] != ':' {
		return 0, 0, false
	}
	at++
	if at < len(s) && (s[at] == '=' || s[at] == '>') {
		at++
	}
	from = skip(s, at, " \t\"'\\")
	if scheme := s[from:wordEnd(s, from)]; equalFold(scheme, "bearer") || equalFold(scheme, "basic") {
		from = skip(s, from+len(scheme), " \t")
	}
	if strings.HasPrefix(s[from:], pemBegin) {
		return from, pemEnd(s, from), true
	}
	if strings.HasPrefix(s[from:], "!!") { // a YAML tag
		from = skip(s, valueEnd(s, from), " \t\"'")
	}
	to = block(s, from, valueEnd(s, from))
	if plain := strings.ToLower(word); strings.HasSuffix(plain, "cookie") || strings.HasSuffix(plain, "authorization") {
		to = headerEnd(s, i, from) // of several parts
	} else if from > at && from > 0 && (s[from-1] == '"' || s[from-1] == '\'') {
		to = quoteEnd(s, from, s[from-1])
	}
	return from, to, to > from
}

// isWord reports whether a value looks like a word of prose: letters, with at most the first in
// upper case.
func isWord(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i > 0 || c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

func equalFold(s, lower string) bool { return len(s) == len(lower) && strings.EqualFold(s, lower) }

func skip(s string, i int, what string) int {
	for i < len(s) && strings.IndexByte(what, s[i]) >= 0 {
		i++
	}
	return i
}

func wordEnd(s string, i int) int {
	for i < len(s) && wordByte(s[i]) {
		i++
	}
	return i
}

// valueEnd returns the end of an unquoted value.
func valueEnd(s string, i int) int {
	for i < len(s) && strings.IndexByte(" \t\r\n\"'`&;,<>(){}[]\\", s[i]) < 0 {
		i++
	}
	return i
}

func lineEnd(s string) int {
	if end := strings.IndexAny(s, "\r\n\"'"); end >= 0 {
		return end
	}
	return len(s)
}

func quoteEnd(s string, i int, quote byte) int {
	for i < len(s) && s[i] != quote && s[i] != '\n' {
		i++
	}
	return i
}

// userinfo finds the password of a URL whose authority starts at i.
func userinfo(s string, i int) (from, to int, ok bool) {
	colon, at := -1, -1
	for j := i; j < len(s); j++ {
		switch c := s[j]; {
		case c == ':' && colon < 0:
			colon = j
		case c == '@':
			at = j // the last one counts
		case c <= ' ' || strings.IndexByte("/?#\"'<>\\", c) >= 0:
			j = len(s)
		}
	}
	if colon < 0 || at < colon {
		return 0, 0, false
	}
	return colon + 1, at, at > colon+1
}

const pemBegin = "-----BEGIN "

// pemEnd returns the end of the PEM block at i, or of the text.
func pemEnd(s string, i int) int {
	end := strings.Index(s[i:], "-----END ")
	if end < 0 {
		return len(s)
	}
	end += i + len("-----END ")
	if dashes := strings.Index(s[end:], "-----"); dashes >= 0 {
		return end + dashes + 5
	}
	return len(s)
}
