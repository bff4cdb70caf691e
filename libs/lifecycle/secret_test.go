package lifecycle

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// Not parallel: the environment belongs to the whole process.
func TestSecrets(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		key  string
		url  string
		says string
	}{
		"nothing":                        {},
		"a variable":                     {env: map[string]string{"TEST_KEY": "k3y", "TEST_URL": "db://u:p@h"}, key: "k3y", url: "db://u:p@h"},
		"a file":                         {env: map[string]string{"TEST_KEY_FILE": file(" k3y \r\n"), "TEST_URL_FILE": file("db://u:p@h\n")}, key: " k3y", url: "db://u:p@h"},
		"both":                           {env: map[string]string{"TEST_KEY_FILE": file("k3y"), "TEST_KEY": "k3y"}, says: "both set"},
		"no such file":                   {env: map[string]string{"TEST_KEY_FILE": "/nowhere"}, says: "TEST_KEY_FILE"},
		"a large file":                   {env: map[string]string{"TEST_KEY_FILE": file(strings.Repeat("k3y", 50_000))}, says: "larger"},
		"in argv":                        {args: []string{"--key", "k3y"}, says: "set TEST_KEY, or TEST_KEY_FILE"},
		"in argv, with a sign":           {args: []string{"--key=k3y"}, says: "--key"},
		"in argv, besides the variable":  {args: []string{"--key=k3y"}, env: map[string]string{"TEST_KEY": "k3y"}, says: "--key"},
		"a URL in argv":                  {args: []string{"--url", "db://u@h/n"}, url: "db://u@h/n"},
		"a URL with a password":          {args: []string{"--url", "db://u:k3y@h/n"}, says: "--url"},
		"a URL with one as parameter":    {args: []string{"--url", "db://u@h/n?password=k3y"}, says: "--url"},
		"a URL that is none":             {args: []string{"--url", "db://u:k3y@h:x/%"}, says: "--url"},
		"a URL in argv, and in a file":   {args: []string{"--url", "db://a"}, env: map[string]string{"TEST_URL_FILE": file("db://b")}, url: "db://a"},
		"another variable with a file's": {env: map[string]string{"TEST_OTHER_FILE": "/nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			var grammar struct {
				Key   string `env:"TEST_KEY" secret:"" hidden:""`
				URL   string `name:"url" env:"TEST_URL" secret:"password"`
				Other string `env:"TEST_OTHER"`
			}
			parser, err := kong.New(&grammar, Secrets())
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := parser.Parse(c.args)
			if err == nil {
				err = unseen(parsed)
			}
			switch {
			case (err == nil) != (c.says == ""), err != nil && !strings.Contains(err.Error(), c.says):
				t.Fatalf("%v, want %q", err, c.says)
			case err != nil && strings.Contains(err.Error(), "k3y"):
				t.Errorf("says the secret: %v", err)
			case err == nil && (grammar.Key != c.key || grammar.URL != c.url):
				t.Errorf("%+v", grammar)
			}
		})
	}
}
