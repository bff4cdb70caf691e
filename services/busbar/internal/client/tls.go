package client

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
)

// TLS names files, in PEM, for an edge at an https:// URL.
type TLS struct {
	// CA has the authorities that may vouch for the edge. Empty: this machine's.
	CA string
	// Cert and Key are a certificate to show, and its key. Empty: none.
	Cert, Key string
}

// client sends requests as the files say; base is for none. The error is a
// *UsageError.
func (f TLS) client(base *http.Client) (*http.Client, error) {
	if f == (TLS{}) {
		return base, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, &UsageError{Message: fmt.Sprintf("--ca: %v", err)}
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &UsageError{Message: fmt.Sprintf("--ca: %s has no certificate in it", f.CA)}
		}
	}
	switch {
	case f.Cert == "" && f.Key != "":
		return nil, &UsageError{Message: "--key is without --cert: give the certificate that the key belongs to"}
	case f.Cert != "" && f.Key == "":
		return nil, &UsageError{Message: "--cert is without --key: give the key of the certificate"}
	case f.Cert != "":
		own, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, &UsageError{Message: fmt.Sprintf("--cert and --key: %v", err)}
		}
		// Shown whatever authorities the edge names: otherwise the caller would
		// be anonymous there, without notice.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = cfg
	return &http.Client{Transport: transport}, nil
}
