package listener

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Files are the paths of a certificate in PEM: the chain, its key, and optionally the
// authorities that sign client certificates.
type Files struct{ Cert, Key, ClientCA string }

// lookTime is the interval at which the files are read again.
//
//limit:process interval at which the files of a certificate are read again
const lookTime = time.Second

// maxFile is the largest file of certificates, in bytes.
const maxFile = 1 << 20

// TLS is a certificate that is read again when its files change. Files that cannot be used,
// such as a certificate whose key is not there yet, change nothing: the last valid certificate
// stays.
type TLS struct {
	files   Files
	log     *slog.Logger
	current atomic.Pointer[pair]
	// problem is the error of the files' current content; nil without a certificate.
	problem atomic.Pointer[string]
	stop    context.CancelFunc
	done    chan struct{}
}

// pair is the content of the files at one time.
type pair struct {
	cert, key, authorities []byte
	leaf                   *x509.Certificate
	config                 *tls.Config
}

// Load reads the files, and reads them again until Close. The error is for the operator who
// starts the edge: a file that cannot be read, a key of another certificate, or a certificate
// that is not valid now.
func Load(files Files, log *slog.Logger) (*TLS, error) {
	first, err := files.load()
	if err != nil {
		return nil, err
	}
	t := &TLS{files: files, log: log, done: make(chan struct{})}
	t.current.Store(first)
	ctx, stop := context.WithCancel(context.Background())
	t.stop = stop
	go t.look(ctx)
	return t, nil
}

// Close stops reading the files. Close the listeners first.
func (t *TLS) Close() {
	t.stop()
	<-t.done
}

// Status describes the certificate for people. An error means that clients refuse it.
func (t *TLS) Status() (string, error) {
	until := t.Expires()
	if time.Now().After(until) {
		return "", fmt.Errorf("the certificate expired on %s; renew it", until.Format(time.DateOnly))
	}
	line := "the certificate is valid until " + until.Format(time.DateOnly)
	if t.problem.Load() != nil {
		line += "; its files have changed but cannot be used, the log says why"
	}
	return line, nil
}

// Expires returns the expiry of the certificate in use.
func (t *TLS) Expires() time.Time { return t.current.Load().leaf.NotAfter }

// look reads the files at intervals. Their times and names are not reliable if a volume is
// swapped by a symbolic link.
func (t *TLS) look(ctx context.Context) {
	defer close(t.done)
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.refresh()
		case <-ctx.Done():
			return
		}
	}
}

func (t *TLS) refresh() {
	now, err := t.files.read()
	if err == nil && now.same(t.current.Load()) {
		t.problem.Store(nil)
		return
	}
	if err == nil {
		err = now.parse(t.files)
	}
	if err != nil {
		if said := t.problem.Load(); said == nil || *said != err.Error() {
			t.problem.Store(new(err.Error()))
			t.log.Warn("the certificate's files cannot be used; the last good one stays", "error", err)
		}
		return
	}
	t.current.Store(now)
	t.problem.Store(nil)
	t.log.Info("the certificate was renewed", "expires", now.leaf.NotAfter)
}

func (f Files) load() (*pair, error) {
	p, err := f.read()
	if err == nil {
		err = p.parse(f)
	}
	return p, err
}

func (f Files) read() (*pair, error) {
	p := &pair{}
	for _, file := range []struct {
		name, flag string
		to         *[]byte
	}{{f.Cert, "--tls-cert", &p.cert}, {f.Key, "--tls-key", &p.key}, {f.ClientCA, "--tls-client-ca", &p.authorities}} {
		if file.name == "" {
			continue
		}
		var err error
		if *file.to, err = read(file.name); err != nil {
			return nil, fmt.Errorf("%s: %w", file.flag, err)
		}
	}
	return p, nil
}

func read(name string) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return b, err
}

func (p *pair) same(other *pair) bool {
	return bytes.Equal(p.cert, other.cert) && bytes.Equal(p.key, other.key) && bytes.Equal(p.authorities, other.authorities)
}

// parse makes a TLS configuration from the content. It is immutable afterwards.
func (p *pair) parse(f Files) error {
	certificate, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("--tls-cert %s and --tls-key %s: %w", f.Cert, f.Key, err)
	}
	p.leaf = certificate.Leaf
	switch now := time.Now(); {
	case now.After(p.leaf.NotAfter):
		return fmt.Errorf("--tls-cert %s expired on %s; renew it", f.Cert, p.leaf.NotAfter.Format(time.DateTime))
	case now.Before(p.leaf.NotBefore):
		return fmt.Errorf("--tls-cert %s is not valid before %s; check this machine's clock", f.Cert, p.leaf.NotBefore.Format(time.DateTime))
	}
	p.config = settings()
	p.config.Certificates = []tls.Certificate{certificate}
	if f.ClientCA == "" {
		return nil
	}
	p.config.ClientCAs = x509.NewCertPool()
	if !p.config.ClientCAs.AppendCertsFromPEM(p.authorities) {
		return fmt.Errorf("--tls-client-ca %s: %w", f.ClientCA, errors.New("the file contains no certificate"))
	}
	// A client without a certificate may identify itself in another way.
	p.config.ClientAuth = tls.VerifyClientCertIfGiven
	// A resumed connection would use a certificate that was checked earlier.
	p.config.SessionTicketsDisabled = true
	return nil
}

// settings returns the settings of every listener: no version before 1.2, and for 1.2 only
// cipher suites that HTTP/2 accepts (RFC 9113, 9.2.2).
func settings() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		CipherSuites: []uint16{
			tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
			tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
		},
	}
}
