package redact_test

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/redact"
)

const m = redact.Marker

func TestJSON(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"nothing to hide":                  {`{"a":[1,2.50,true,null,"x"],"b":{}}`, `{"a":[1,2.50,true,null,"x"],"b":{}}`},
		"white space goes":                 {" { \"a\" : 1 }\n", `{"a":1}`},
		"members by name":                  {`{"password":"x","api_key":"x","token":"x","secret":"x"}`, `{"password":"` + m + `","api_key":"` + m + `","token":"` + m + `","secret":"` + m + `"}`},
		"in any spelling":                  {`{"PassWord":1,"API-Key":2,"x-auth-token":3,"clientSecret":4,"AWS_SECRET_ACCESS_KEY":5,"private key":6}`, `{"PassWord":"` + m + `","API-Key":"` + m + `","x-auth-token":"` + m + `","clientSecret":"` + m + `","AWS_SECRET_ACCESS_KEY":"` + m + `","private key":"` + m + `"}`},
		"with an escape in the name":       {`{"pass\u0077ord":"x"}`, `{"password":"` + m + `"}`},
		"whatever the value is":            {`{"credentials":{"user":"ada","key":["x"]},"token":7}`, `{"credentials":"` + m + `","token":"` + m + `"}`},
		"but null":                         {`{"password":null}`, `{"password":null}`},
		"at any depth":                     {`[[{"a":{"b":[{"password":"x"}]}}]]`, `[[{"a":{"b":[{"password":"` + m + `"}]}}]]`},
		"names that only look like it":     {`{"max_tokens":100,"author":"Ada","keyboard":"qwerty","passenger":"Bob"}`, `{"max_tokens":100,"author":"Ada","keyboard":"qwerty","passenger":"Bob"}`},
		"a name beside its value":          {`[{"name":"DB_PASSWORD","value":"x"},{"value":"x","name":"api-key","more":1},{"name":"city","value":"Oslo"}]`, `[{"name":"DB_PASSWORD","value":"` + m + `"},{"value":"` + m + `","name":"api-key","more":1},{"name":"city","value":"Oslo"}]`},
		"a flag before its value":          {`["mysql","--password","x","-u","ada"]`, `["mysql","--password","` + m + `","-u","ada"]`},
		"a secret as a name":               {`{"ghp_0123456789012345678901234567890123":1}`, `{"` + m + `":1}`},
		"JSON in a string":                 {`{"body":"{\"password\":\"x y\",\"a\":1}"}`, `{"body":"{\"password\":\"` + m + `\",\"a\":1}"}`},
		"a value alone":                    {`"Bearer abcdefgh12345"`, `"Bearer ` + m + `"`},
		"characters of more than one byte": {`{"ключ":"значение","password":"пароль"}`, `{"ключ":"значение","password":"` + m + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, note := redact.JSON([]byte(c.in), 8<<10)
			if string(out) != c.want || note != "" {
				t.Errorf("%s (%s)\nwant %s", out, note, c.want)
			}
		})
	}
	for name, in := range map[string]string{
		"nothing": "", "text": "password=x", "half": `{"password":"x"`, "two values": `{} {}`, "a name twice": `{"a":"x","a":"x"}`, "not UTF-8": "{\"a\":\"\xff\"}",
	} {
		t.Run("leaves out whole: "+name, func(t *testing.T) {
			t.Parallel()
			if out, note := redact.JSON([]byte(in), 8<<10); out != nil || note != redact.Unreadable {
				t.Errorf("%s (%s)", out, note)
			}
		})
	}
}

func TestJSONIsBounded(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":[`, 4000) + strings.Repeat(`]}`, 4000)
	for name, in := range map[string]string{
		"a long string":     `{"a":"` + strings.Repeat("é", 400_000) + `"}`,
		"many members":      `{"m":[` + strings.Repeat(`{"a":1,"b":"text"},`, 40_000) + `0]}`,
		"a long number":     `[` + strings.Repeat("1", 100_000) + `]`,
		"many long strings": `[` + strings.Repeat(`"`+strings.Repeat("x", 5000)+`",`, 100) + `0]`,
		"deep":              deep,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, note := redact.JSON([]byte(in), 8<<10)
			if len(out) > 10<<10 || len(out) == 0 || note != redact.Cut || !jsontext.Value(out).IsValid() {
				t.Errorf("%d bytes, %q, valid %v", len(out), note, jsontext.Value(out).IsValid())
			}
		})
	}
	t.Run("no secret is cut in halves", func(t *testing.T) {
		t.Parallel()
		const key = "sk-ant-0123456789abcdefghijklmnopqrstuvwxyz"
		for at := 970; at < 1030; at++ {
			out, _ := redact.JSON([]byte(`"`+strings.Repeat("x", at)+" "+key+`"`), 8<<10)
			if strings.Contains(string(out), "sk-") {
				t.Fatalf("at %d: %s", at, out[len(out)-60:])
			}
		}
	})
}

const pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----"

func TestText(t *testing.T) {
	t.Parallel()
	jwt := "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	for in, want := range map[string]string{
		"":                                     "",
		"Basic understanding of the bus":       "Basic understanding of the bus",
		"The token was lost; bearer of news":   "The token was lost; bearer of news",
		"ghp_short sk-learn AKIA":              "ghp_short sk-learn AKIA",
		"https://example.com:8080/a@b?x=1":     "https://example.com:8080/a@b?x=1",
		"Authorization: Bearer abc.def-123":    "Authorization: Bearer " + m,
		"curl -H 'Cookie: a=b; c=d' x":         "curl -H 'Cookie: " + m + "' x",
		"basic dXNlcjpwYXNz":                   "basic " + m,
		"see " + jwt + ", please":              "see " + m + ", please",
		"a " + pem + " b":                      "a " + m + " b",
		"-----BEGIN PRIVATE KEY-----\nMIIE":    m,
		"postgres://ada:hunter2@db/x":          "postgres://ada:" + m + "@db/x",
		"redis://:p@ss@h":                      "redis://:" + m + "@h",
		"https://x/?token=abc&page=2":          "https://x/?token=" + m + "&page=2",
		"DB_PASSWORD=hunter2 PORT=1":           "DB_PASSWORD=" + m + " PORT=1",
		`password: "correct horse" next`:       `password: "` + m + `" next`,
		"Server=db;Password=x1;Port=2":         "Server=db;Password=" + m + ";Port=2",
		"xoxb-1234567890-abc":                  m,
		"AKIAIOSFODNN7EXAMPLE and more":        m + " and more",
		"key AIzaSyA-1234567890abcdefghijklmn": "key " + m,
		"sk-proj-abcdefghijklmnop0123":         m,
		"github_pat_11ABCDEFG0123456789abcdef": m,
	} {
		if got := redact.Text(in); got != want {
			t.Errorf("%q\n is  %q\nwant %q", in, got, want)
		}
	}
}

// No planted secret appears in the output, whatever surrounds it.
func TestCanaries(t *testing.T) {
	t.Parallel()
	canaries := map[string]string{ // secrets that must not appear, and the input that contains them
		"canaryAAAAAAAA01":                           `"Authorization: Bearer canaryAAAAAAAA01"`,
		"canaryAAAAAAAA02":                           `{"refresh_token":"canaryAAAAAAAA02"}`,
		"ghp_canary03canary03canary03canary03canary": `"push with ghp_canary03canary03canary03canary03canary"`,
		"canary04":                                   `{"db":{"password":"canary04"}}`,
		"canary05":                                   `"postgres://app:canary05@db.internal:5432/app"`,
		"canary06canary06":                           `"-----BEGIN EC PRIVATE KEY-----\ncanary06canary06\n-----END EC PRIVATE KEY-----"`,
		"canary07":                                   `"https://api.example.com/v1?api_key=canary07&q=1"`,
		"AKIACANARY08CANARY08":                       `["AKIACANARY08CANARY08"]`,
		"canary09":                                   `{"headers":[{"name":"X-Api-Key","value":"canary09"}]}`,
		"xoxb-canary10-canary10":                     `"slack xoxb-canary10-canary10"`,
		"sk-ant-canary11canary11canary11":            `{"note":"use sk-ant-canary11canary11canary11 today"}`,
		"AIzacanary12canary12canary12canary12":       `{"x":{"y":["AIzacanary12canary12canary12canary12"]}}`,
		"canary13":                                   `["login","--password","canary13"]`,
		"canary14":                                   `{"cookie":"session=canary14"}`,
		"eyJcanary15canary.eyJcanary15canary.canary15can": `"jwt eyJcanary15canary.eyJcanary15canary.canary15can"`,
		"canary16":                 `"panic: dial: PGPASSWORD=canary16 failed"`,
		"canary17":                 `{"client-secret":{"value":"canary17"}}`,
		"canary18":                 `"{\"nested\":{\"apiKey\":\"canary18\"}}"`,
		"Y2FuYXJ5MTk6Y2FuYXJ5MTk=": `"Proxy-Authorization: Basic Y2FuYXJ5MTk6Y2FuYXJ5MTk="`,
		"canary20":                 `{"privateKey":"canary20","passphrase":"canary20"}`,
	}
	if len(canaries) != 20 {
		t.Fatal(len(canaries))
	}
	for canary, in := range canaries {
		for _, wrapped := range []string{in, `{"a":` + in + `}`, `[1,[` + in + `]]`, `{"text":` + quote(t, in) + `}`} {
			out, note := redact.JSON([]byte(wrapped), 8<<10)
			if note != "" || strings.Contains(string(out), canary) || !strings.Contains(string(out), m) {
				t.Errorf("%s\n became %s (%s)", wrapped, out, note)
			}
		}
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := jsontext.AppendQuote(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"password":"x","a":[{"name":"token","value":"y"}]}`, `["--secret","x"]`, `"Bearer abcdefgh1"`, `[1e400,"\ud800"]`, `{"a":"-----BEGIN "}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, note := redact.JSON(raw, 512)
		switch {
		case note == redact.Unreadable && out != nil:
			t.Errorf("unreadable, and yet %q", out)
		case note != redact.Unreadable && (!jsontext.Value(out).IsValid() || len(out) > 8<<10 && len(out) > 4*len(raw)):
			t.Errorf("%q became %q (%s)", raw, out, note)
		}
	})
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"password=x", "postgres://a:b@c", "Bearer x.y.z", pem, "token: \"a", "a://:@", "secret==>", "mysql -pa -p b", "curl -u a:b", "a%3Db", "%70assword=x", "<password>a<", "password: |\n a\nb", "machine a login b password c", "!!str", "key=\"token\" value=\"a\"", "1234567890:AAa"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := redact.Text(s)
		if strings.Count(once, m) == 0 && once != s {
			t.Errorf("%q changed to %q without a marker", s, once)
		}
		// A value after a secret's name never appears.
		if out := redact.Text("password=canary1234 " + s); strings.Contains(out[:min(len(out), 19)], "canary1234") {
			t.Errorf("%q", out)
		}
	})
}

func BenchmarkJSON(b *testing.B) {
	for name, in := range map[string]string{
		"small":  `{"text":"One bus. Many circuits.","limit":10}`,
		"64 KiB": `{"text":"` + strings.Repeat("lorem ipsum dolor ", 3600) + `"}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			for b.Loop() {
				redact.JSON([]byte(in), 8<<10)
			}
		})
	}
}
