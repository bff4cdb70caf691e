// Package authority makes the certificates of a bus that has no authority of its own:
// one that signs, and one that all of its NATS servers show, to clients and to each
// other.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"
)

// Files in the directory.
const (
	// CA is the certificate of the authority, which programs of the bus trust.
	CA = "ca.pem"
	// Cert and Key are what the NATS servers show.
	Cert = "nats.pem"
	Key  = "nats-key.pem"

	caKey = "ca-key.pem"
)

// Lifetimes. A server's certificate is made again when less than renewAt of it is left.
const (
	caLife     = 10 * 365 * 24 * time.Hour
	serverLife = 365 * 24 * time.Hour
	renewAt    = serverLife / 3
)

// Issue sees that a directory has an authority, and a certificate signed by it that is
// good for these hosts, names or addresses, for months to come. A good one that is there
// is kept. Files with a key are for their owner alone.
func Issue(dir string, hosts []string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	ca, key, err := authority(dir)
	if err != nil {
		return err
	}
	if good(dir, ca, hosts) {
		return nil
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "NATS of Busbar"}, NotAfter: time.Now().Add(serverLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, h := range hosts {
		if ip := net.ParseIP(h); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, h)
		}
	}
	return sign(dir, Cert, Key, template, ca, key)
}

var hostName = regexp.MustCompile(`^(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// ValidHosts rejects anything but names and addresses of hosts: a certificate for it would be
// good for nothing.
func ValidHosts(hosts []string) error {
	for _, h := range hosts {
		if net.ParseIP(h) == nil && (len(h) > 253 || !hostName.MatchString(h)) {
			return fmt.Errorf("%q is not a host name or address: write it as nats-1 or 10.0.0.5, without scheme and port", h)
		}
	}
	return nil
}

func authority(dir string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := readKey(filepath.Join(dir, caKey))
	if errors.Is(err, fs.ErrNotExist) {
		err = sign(dir, CA, caKey, &x509.Certificate{
			Subject: pkix.Name{CommonName: "Busbar bus"}, NotAfter: time.Now().Add(caLife),
			IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
		}, nil, nil)
		if err == nil {
			key, err = readKey(filepath.Join(dir, caKey))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	ca, err := readCertificate(filepath.Join(dir, CA))
	return ca, key, err
}

// good reports whether the servers' certificate and key can stay.
func good(dir string, ca *x509.Certificate, hosts []string) bool {
	c, err := readCertificate(filepath.Join(dir, Cert))
	if err != nil || time.Until(c.NotAfter) < renewAt || c.CheckSignatureFrom(ca) != nil {
		return false
	}
	key, err := readKey(filepath.Join(dir, Key))
	return err == nil && key.PublicKey.Equal(c.PublicKey) &&
		!slices.ContainsFunc(hosts, func(h string) bool { return c.VerifyHostname(h) != nil })
}

// sign writes a certificate and its fresh key, signed by an authority or by itself.
func sign(dir, certFile, keyFile string, template, ca *x509.Certificate, caKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	if ca == nil {
		ca, caKey = template, key
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return err
	}
	template.NotBefore = time.Now().Add(-time.Hour) // clocks differ
	cert, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	// The key last: with it there, the certificate is too.
	if err := write(filepath.Join(dir, certFile), "CERTIFICATE", cert, 0o644); err != nil {
		return err
	}
	return write(filepath.Join(dir, keyFile), "EC PRIVATE KEY", der, 0o600)
}

// write replaces a file as one step.
func write(path, kind string, der []byte, mode fs.FileMode) error {
	fresh := path + ".new"
	if err := os.WriteFile(fresh, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), mode); err != nil {
		return err
	}
	return os.Rename(fresh, path)
}

func readKey(path string) (*ecdsa.PrivateKey, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParseECPrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	der, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func readPEM(path string) ([]byte, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("%s: it has no PEM block", path)
	}
	return block.Bytes, nil
}
