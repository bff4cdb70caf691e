package redact_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/redact"
)

// The forms in which secrets appear; canary must be removed.
func TestM15Forms(t *testing.T) {
	t.Parallel()
	const canary = "cnry51f0a2001"
	for _, name := range []string{
		"password", "api_key", "apiKeys", "accountKey", "ssh_key", "sshKey", "masterKey", "deploy_key", "private-key", "passcode", "pin_code", "PIN",
		"sig", "signature", "x-amz-signature", "code_verifier", "client_assertion", "assertion", "SAMLResponse", "session", "session_token", "jsessionid",
		"PHPSESSID", "auth", "x-vault-token", "kubeconfig", "recovery_codes", "backup_code", "security_answer", "cvv", "card_number", "пароль", "contraseña",
		"mot_de_passe", "passwort", "p a s s w o r d", "PASSWORD_1", "db_pass", "userPass", "mysql_pwd", "bearerToken", "id_token", "otp_code", "totp",
		"encryption_key", "license_key", "webhook_url", "conn_str", "encryption_key_b64", "seed_hex", "X-Auth",
	} {
		if out, note := redact.JSON([]byte(`{"`+name+`":"`+canary+`"}`), 8<<10); strings.Contains(string(out), canary) || note != "" {
			t.Errorf("member %s: %s %s", name, out, note)
		}
	}
	for _, text := range []string{
		"https://user:%s@host/", "https://x/?sig=%s&a=1", "https://x/?%70assword=%s", "https://x/?a=1&%74oken=%s", "password%3D%s", "a=1%26access_token%3d%s",
		"https://s3/x?X-Amz-Signature=%s", "https://acct.blob.core.windows.net/x?sv=1&sig=%s", "AccountKey=%s;EndpointSuffix=core",
		"SharedAccessSignature=%s", "Authorization: Basic %s1234", `Authorization: Digest username="a", response="%s"`,
		"Authorization: AWS4-HMAC-SHA256 Credential=AKIAX/x, Signature=%s", "Authorization: Token %s", "X-Api-Key: %s", "Cookie: a=%s",
		"Set-Cookie: sid=%s; Path=/", "PGPASSWORD=%s psql", "curl -u user:%s https://x", "curl --user 'user:%s' https://x", "mysql -u root -p%s db",
		"mysqldump -h db -p%s", "sshpass -p %s ssh x", "deploy --token %s", "deploy --token=%s", "run --api-key %s --fast", "java -password %s",
		"export AWS_SECRET_ACCESS_KEY=%s", "<password>%s</password>", `<add key="Password" value="%s"/>`, "'password': '%s'",
		`{"password": "%s`, `password = """%s"""`, "password : !!str %s", "machine x login y password %s", "password: >-\n  %s\nport: 1", "password: |\n  a\n  %s\n",
		"PuTTY-User-Key-File-2: x\nPrivate-Lines: 1\n%s", "bot 123456789:AA%sxxxxxxxxxxxxxxxxxxxxx",
		"https://hooks.slack.com/services/T000/B000/%s", "https://discord.com/api/webhooks/1/%s", "mongodb+srv://u:%s@c/x",
		"jdbc:mysql://h/d?user=a&password=%s", "amqp://u:p%2F%s@h", "db:\n  password: %s\n", "pw: %s", "JSESSIONID=%s; x=1",
	} {
		in := strings.ReplaceAll(text, "%s", canary)
		if out := redact.Text(in); strings.Contains(out, canary) || !strings.Contains(out, redact.Marker) {
			t.Errorf("%q became %q", in, out)
		}
	}
	for _, in := range []string{
		`{"headers":[["Authorization","` + canary + `"]]}`, `{"headers":[["a","b"],["X-Api-Key","` + canary + `"]]}`,
		`{"headers":[{"k":"Authorization","v":"` + canary + `"}]}`, `{"Headers":[{"Name":"password","Value":"` + canary + `"}]}`,
		`{"env":[{"id":"DB_PASSWORD","val":"` + canary + `"}]}`, `{"env":[{"val":"` + canary + `","id":"DB_PASSWORD"}]}`,
	} {
		if out, note := redact.JSON([]byte(in), 8<<10); strings.Contains(string(out), canary) || note != "" {
			t.Errorf("%s became %s", in, out)
		}
	}
}

// Text that only looks like a secret stays unchanged.
func TestM15HarmlessText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"Session: the morning of the second day", "The signature: func Text(s string) string", "a session = two hours", "sig: significant",
		"my password is lost", "the password was changed", "pass the salt", "100% password policy", "50%3A1", "a%20b%20c",
		"docker run -u 1000:1000 image", "tar -p -x", "mkdir -p /srv/data", "ssh -p 2222 host", "cp -pr a b", "git log -p file", "curl -u", "ls --user",
		"busbar --token TOKEN", "use --token <token>", "use --token $TOKEN", "--password", "a non-token based approach",
		"https://hooks.slack.com/", "https://discord.com/channels/1/2", "12345678:AA", "10:30:00 AA", "ratio 12345678:1",
		"<token/>", "<passenger>Ada</passenger>", "key value pairs", "the key=value form", "login and log out", "machine learning login page",
		"> quoted\n  text", "1 > 0 | x", "Private lines: none", "https://example.com/?page=2&size=10", "compass and bypass", "keyboard monkey",
		"E = mc%C2%B2", "signature", "sessions=3", "SIGTERM", "author: Ada", "designature", "passes: 3",
	} {
		if out := redact.Text(s); out != s {
			t.Errorf("%q became %q", s, out)
		}
	}
	for _, in := range []string{
		`["token","session"]`, `{"columns":["password","name"]}`, `{"order":[["name","asc"],["date","desc"]]}`, `{"id":"a","v":"1.2"}`,
		`{"sessions":3,"keys":["a","b"],"passes":2,"authors":["x"],"signatures":1,"sessionName":"standup"}`, `{"id":"monkey","val":1}`,
	} {
		if out, _ := redact.JSON([]byte(in), 8<<10); string(out) != in {
			t.Errorf("%s became %s", in, out)
		}
	}
}

// The project's own documents mention secrets but contain none; almost nothing of them is removed.
func TestM15OwnDocuments(t *testing.T) {
	t.Parallel()
	words, gone := 0, 0
	for _, pattern := range []string{"../../*.md", "../../docs/*/*.md", "../../services/text/*.go", "../../services/planning/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			words += len(strings.Fields(string(raw)))
			for line := range strings.Lines(string(raw)) {
				if out := redact.Text(line); out != line {
					gone++
					t.Logf("%s: %s", file, out)
				}
			}
		}
	}
	if words < 10_000 || gone > words/2000 {
		t.Errorf("%d lines of %d words lose something", gone, words)
	}
}

// The time grows with the text, whatever is in it.
func TestM15TakesTimeInProportion(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"a", "%41", "password", "password=", "-p", "mysql -p ", "a://a:", "<password>", "key=\"Password\" ", "login ", "!!", ">", "%3D", "%3D:", "=%41", "12345678:AA", "sig=", "-----BEGIN ", "\"", "password: >-\n "} {
		took := func(n int) time.Duration {
			text := strings.Repeat(part, n/len(part))
			least := time.Hour
			for range 3 {
				start := time.Now()
				redact.Text(text)
				least = min(least, time.Since(start))
			}
			return least
		}
		// Proportional time would be 32 times as long, quadratic time 1,024 times. The rest is an
		// allowance for a busy machine.
		small, large := took(1<<12), took(1<<17)
		if large > 500*max(small, 200*time.Microsecond) {
			t.Errorf("%q: %v for 4 KiB, %v for 128 KiB", part, small, large)
		}
	}
}
