package lifecycle

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/alecthomas/kong"
)

// maxSecret is the largest file with a secret, in bytes.
const maxSecret = 64 << 10

// Secrets is for grammars with secrets: fields with the tag secret. If such a field has the
// variable X, then X_FILE names a file with the value, whose trailing white space is ignored.
// A secret on the command line is refused, because other users of the machine can read it; with
// secret:"password" only a URL with a password is refused.
func Secrets() kong.Option {
	return kong.OptionFunc(func(k *kong.Kong) error {
		return kong.Resolvers(kong.ResolverFunc(fromFile)).Apply(k)
	})
}

func fromFile(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if !flag.Tag.Has("secret") {
		return nil, nil
	}
	for _, name := range flag.Envs {
		file := os.Getenv(name + "_FILE")
		if file == "" {
			continue
		}
		if os.Getenv(name) != "" {
			return nil, fmt.Errorf("%s and %[1]s_FILE are both set; set only one of them", name)
		}
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("%s_FILE: %w", name, err)
		}
		defer f.Close()
		raw, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
		if err != nil {
			return nil, fmt.Errorf("%s_FILE: %w", name, err)
		}
		if len(raw) > maxSecret {
			return nil, fmt.Errorf("%s_FILE: %s is larger than %d bytes", name, file, maxSecret)
		}
		return strings.TrimRight(string(raw), " \t\r\n"), nil
	}
	return nil, nil
}

// unseen refuses secrets on the command line.
func unseen(c *kong.Context) error {
	for _, p := range c.Path {
		if p.Flag == nil || p.Resolved || !p.Flag.Tag.Has("secret") {
			continue
		}
		if p.Flag.Tag.Get("secret") == "password" && !hasPassword(fmt.Sprint(c.FlagValue(p.Flag))) {
			continue
		}
		name := p.Flag.Envs[0]
		return fmt.Errorf("--%s is a secret, and other users of this machine can read the command line; set %s, or %[2]s_FILE to the path of a file with it", p.Flag.Name, name)
	}
	return nil
}

func hasPassword(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil {
		return true // it may have one
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}
