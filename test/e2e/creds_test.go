package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/busbar-mcp/busbar/libs/bustest"
)

// operated is a NATS server in operator mode: accounts and users are JWTs that others
// sign. creds makes the credentials file of a user.
type operated struct {
	url  string
	user nkeys.KeyPair // signs users of the account
}

func pair(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	kp, err := create()
	if err != nil {
		t.Fatal(err)
	}
	public, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return kp, public
}

func startOperated(t *testing.T) *operated {
	t.Helper()
	operator, operatorKey := pair(t, nkeys.CreateOperator)
	account, accountKey := pair(t, nkeys.CreateAccount)
	_, systemKey := pair(t, nkeys.CreateAccount)
	oc := jwt.NewOperatorClaims(operatorKey)
	oc.SystemAccount = systemKey
	ac := jwt.NewAccountClaims(accountKey)
	ac.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	sign := func(c jwt.Claims) string {
		token, err := c.Encode(operator)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	s := bustest.Start(t, bustest.Config{Conf: fmt.Sprintf(
		"operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload: { %s: %s, %s: %s }\n",
		sign(oc), systemKey, accountKey, sign(ac), systemKey, sign(jwt.NewAccountClaims(systemKey)))})
	return &operated{s.URL, account}
}

// creds is a user's credentials file, which holds the key that seals requests too.
func (o *operated) creds(t *testing.T, name, secret string, until time.Time) string {
	t.Helper()
	user, public := pair(t, nkeys.CreateUser)
	uc := jwt.NewUserClaims(public)
	uc.Name, uc.Expires = name, until.Unix()
	token, err := uc.Encode(o.user)
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	config, err := jwt.FormatUserConfig(token, seed)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(secret)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".creds")
	if err := os.WriteFile(path, append(config, sealing(string(keys))...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// sealing is the part of a secret with the key that seals.
func sealing(secret string) string { return secret[strings.Index(secret, "-----BEGIN BUSBAR KEY"):] }

// TestCreds runs a fleet on a NATS server in operator mode, with a credentials file
// for each program; one that has expired gets nobody in.
func TestCreds(t *testing.T) {
	t.Parallel()
	o := startOperated(t)
	secrets, _ := issue(t, "text")
	as := func(user string, until time.Duration) []string {
		return []string{"--nats", o.url, "--nats-creds", o.creds(t, user, filepath.Join(secrets, user+".secret"), time.Now().Add(until))}
	}
	edge := start(t, "busbar", append([]string{"edge", "--listen", "127.0.0.1:0", "--data-dir", t.TempDir()}, as("edge", time.Hour)...)...).awaitReady()
	start(t, "text", as("text", time.Hour)...)
	bustest.Eventually(t, "the tool of the service", func() bool {
		return send(t, modernCall(t, edge.mcp, "1", "analyzeText", analyze)).message.Error == nil
	})
	late := as("edge", -time.Minute)
	if code, _, said := busbar(t, nil, append([]string{"services"}, late...)...); code == 0 || !strings.Contains(said, "does not let this program in") {
		t.Errorf("with credentials of yesterday: exit %d, %s", code, said)
	}
}
