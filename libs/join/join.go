// Package join connects a program to the bus: it has the flags for the address of the bus, and for
// the secret with which the program proves its identity. Start reading at Flags.Connect.
package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// Flags say how to join a bus. The tags are read by kong.
type Flags struct {
	NATS string `name:"nats" default:"nats://127.0.0.1:4222" env:"BUSBAR_NATS" secret:"password" placeholder:"URL" help:"NATS servers to join, comma-separated (default ${default})."`
	Proof
}

// Proof is the secret with which a program proves its identity on the bus.
type Proof struct {
	NKey  string `name:"nats-nkey" env:"BUSBAR_NATS_NKEY" placeholder:"FILE" help:"File with the program's nkey seed and the key that seals requests, from \"busbar nats-config\"."`
	Creds string `name:"nats-creds" env:"BUSBAR_NATS_CREDS" placeholder:"FILE" help:"Credentials file of NATS, with a JWT and a seed. It may also hold the key that seals requests."`
	CA    string `name:"nats-ca" env:"BUSBAR_NATS_CA" placeholder:"FILE" help:"Authorities that sign the certificates of the NATS servers, in PEM (default: the system's)."`
	Cert  string `name:"nats-cert" env:"BUSBAR_NATS_CERT" placeholder:"FILE" help:"Certificate to show to the NATS servers, in PEM."`
	Key   string `name:"nats-key" env:"BUSBAR_NATS_KEY" placeholder:"FILE" help:"Key of --nats-cert, in PEM."`
}

// Connect joins the bus as a user: a service by its name, an edge, or an operator.
// name is shown in NATS monitoring. It waits for the bus until ctx ends.
func (f Flags) Connect(ctx context.Context, user, name string) (*bus.Conn, error) {
	return f.connect(ctx, user, name, false)
}

// ConnectNow is Connect for a command that a person waits for: it ends as soon as no
// server answers and lets the user in.
func (f Flags) ConnectNow(ctx context.Context, user, name string) (*bus.Conn, error) {
	return f.connect(ctx, user, name, true)
}

func (f Flags) connect(ctx context.Context, user, name string, now bool) (*bus.Conn, error) {
	cfg, err := f.Config()
	if err != nil {
		return nil, err
	}
	if of := cfg.Secret.Of; of != "" && of != user && of != secret.Edges {
		return nil, fmt.Errorf("%s is the secret of %s, and this is %s: give it %s.secret, which \"busbar nats-config\" makes", f.NKey+f.Creds, of, user, user)
	}
	if f.NKey+f.Creds == "" {
		cfg.Secret, _ = local(f.NATS, user)
	}
	cfg.URL, cfg.User, cfg.Name, cfg.Logger, cfg.EndRefused = f.NATS, user, name, slog.Default(), now
	return bus.Connect(ctx, cfg)
}

// Config reads the files. Certificates and JWTs are read again at every connection; a new seed or
// sealing key needs a restart.
func (p Proof) Config() (cfg bus.Config, err error) {
	if p.NKey != "" && p.Creds != "" {
		return cfg, errors.New("--nats-nkey and --nats-creds are two users: give one of them")
	}
	if path := p.NKey + p.Creds; path != "" {
		if cfg.Secret, err = secret.Read(path); err != nil {
			return cfg, fmt.Errorf("the secret of this program: %w", err)
		}
		if p.NKey != "" && cfg.Secret.Seed == nil {
			return cfg, fmt.Errorf("--nats-nkey %s: it has no seed of a NATS user", path)
		}
		cfg.Creds = p.Creds
	}
	cfg.TLS, err = p.tls()
	return cfg, err
}

// tls is nil without TLS flags: a tls:// URL uses TLS nevertheless.
func (p Proof) tls() (*tls.Config, error) {
	if p.CA == "" && p.Cert == "" && p.Key == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if p.CA != "" {
		raw, err := os.ReadFile(p.CA)
		if err != nil {
			return nil, fmt.Errorf("--nats-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(raw) {
			return nil, fmt.Errorf("--nats-ca %s has no certificate in PEM", p.CA)
		}
	}
	if (p.Cert == "") != (p.Key == "") {
		return nil, errors.New("--nats-cert and --nats-key go together")
	}
	if p.Cert != "" {
		if _, err := tls.LoadX509KeyPair(p.Cert, p.Key); err != nil {
			return nil, fmt.Errorf("--nats-cert: %w", err)
		}
		// Read at every connection: certificates are renewed.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
			return &pair, err
		}
	}
	return cfg, nil
}
