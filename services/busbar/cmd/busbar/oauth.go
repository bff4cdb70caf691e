package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/services/busbar/internal/authserver"
	"github.com/busbar-mcp/busbar/services/edge"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
)

// oauthFlags are the flags of the development authorization server. The tags are read by
// kong.
type oauthFlags struct {
	OAuth       bool   `name:"oauth" env:"BUSBAR_DEV_OAUTH" help:"Make clients log in at an authorization server for this machine only. It asks for no password: people choose a principal of --access, or ada or bob without it."`
	OAuthListen string `name:"oauth-listen" default:"127.0.0.1:8002" env:"BUSBAR_DEV_OAUTH_LISTEN" placeholder:"HOST:PORT" help:"Where the authorization server of --oauth listens (default ${default})."`
}

// demo is the policy without a file: two users to try.
//
//go:embed demo.yaml
var demo []byte

// demoFile is where demo is written, to be changed.
const demoFile = "access.yaml"

// policy is the policy file to use: the one given, or the demonstration.
func (f *oauthFlags) policy(given, dir string) (string, error) {
	if !f.OAuth || given != "" {
		return given, nil
	}
	path := filepath.Join(dir, demoFile)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return path, nil
	}
	if err != nil {
		return "", err
	}
	_, err = file.Write(demo)
	return path, errors.Join(err, file.Close())
}

// private refuses addresses that others than this machine reach: there, anybody would be
// whoever they say.
func (f *oauthFlags) private(listen edge.ListenFlags) error {
	for _, address := range []string{listen.Listen, listen.GRPCListen} {
		if !f.OAuth || address == "" {
			continue
		}
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return fmt.Errorf("%s is a public address, and --oauth lets anybody log in without a password: listen on 127.0.0.1, or leave --oauth out and name your identity provider in --access", address)
		}
	}
	return nil
}

// open makes the authorization server, and has the edge take its tokens; nil without
// --oauth. Users and scopes come from the edge's policy.
func (f *oauthFlags) open(dir string, l *edge.Listeners, who *edge.IdentityFlags, cfg *edge.Config) (*authserver.Server, error) {
	policy, ok := cfg.Access.(*access.Live)
	if !f.OAuth || !ok {
		return nil, nil
	}
	at, err := net.Listen("tcp", f.OAuthListen)
	if err != nil {
		return nil, fmt.Errorf("authorization server: %w; choose another address with --oauth-listen", err)
	}
	s, err := authserver.New(authserver.Config{
		Listener: at, Resource: l.MCP(), Dir: dir, Logger: slog.Default(),
		Users:  func() []authserver.User { return principals(policy.Now().File()) },
		Scopes: func() []string { return policy.Now().Scopes() },
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("--oauth: %w", err), at.Close())
	}
	who.DevIssuer = &oauth.Issuer{URL: s.Issuer(), Audience: []string{l.MCP()}, Algorithms: []string{"ES256"}}
	return s, nil
}

// principals are the principals of a policy file, by name.
func principals(file *access.File) []authserver.User {
	var all []authserver.User
	for _, name := range slices.Sorted(maps.Keys(file.Principals)) {
		p := file.Principals[name]
		var note []string
		if p.Tenant != "" {
			note = append(note, "tenant "+p.Tenant)
		}
		if len(p.Roles) > 0 {
			note = append(note, "roles "+strings.Join(p.Roles, " "))
		}
		all = append(all, authserver.User{Name: name, Note: strings.Join(note, ", ")})
	}
	return all
}

// serveBoth serves the edge, and the authorization server if there is one, until one of
// them ends.
func serveBoth(ctx context.Context, e *edge.Edge, l *edge.Listeners, s *authserver.Server) error {
	serving := pool.New().WithErrors().WithContext(ctx).WithCancelOnError()
	if s != nil {
		serving.Go(s.Serve)
	}
	serving.Go(func(ctx context.Context) error { return e.ServeAll(ctx, l) })
	return serving.Wait()
}
