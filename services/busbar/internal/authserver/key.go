package authserver

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// keyFile is the file with the signing key, in PEM.
const keyFile = "oauth-key.pem"

// key signs tokens, and values that the server hands out and must get back unchanged.
type key struct {
	signer jose.Signer
	// public is the key set for edges.
	public []byte
	// secret is for values that only this server reads again.
	secret []byte
}

// openKey reads the key of a directory, or creates it.
func openKey(dir string) (*key, error) {
	path := filepath.Join(dir, keyFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = makeKey(dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("signing key: %w", err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("signing key: other users can read %s; remove the file, then clients must log in again", path)
	}
	k, err := parseKey(raw)
	if err != nil {
		return nil, fmt.Errorf("signing key: %s: %w; remove the file, then clients must log in again", path, err)
	}
	return k, nil
}

func makeKey(dir, path string) ([]byte, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, err
	}
	raw := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	tmp, err := os.CreateTemp(dir, keyFile+".*") // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = tmp.Write(raw)
	if err := errors.Join(err, tmp.Close()); err != nil {
		return nil, err
	}
	return raw, os.Rename(tmp.Name(), path)
}

func parseKey(raw []byte) (*key, error) {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, errors.New("no PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || private.Curve != elliptic.P256() {
		return nil, errors.New("the file has no P-256 key")
	}
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	sum, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return nil, err
	}
	public.KeyID = base64url(sum)
	k := &key{}
	if k.public, err = json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}); err != nil {
		return nil, err
	}
	if k.secret, err = hkdf.Key(sha256.New, block.Bytes, nil, "busbar dev: what comes back", sha256.Size); err != nil {
		return nil, err
	}
	options := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", public.KeyID)
	k.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, options)
	return k, err
}

// sign makes an access token of claims.
func (k *key) sign(claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	jws, err := k.signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return jws.CompactSerialize()
}

// seal makes a text from a value. Only open reads it, and only for the same purpose. The value is not
// secret.
func (k *key) seal(purpose string, v any) (string, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	payload := base64url(raw)
	return payload + "." + base64url(k.mac(purpose, payload)), nil
}

var errNotSealed = errors.New("not from this server")

func (k *key) open(purpose, sealed string, v any) error {
	payload, mac, ok := strings.Cut(sealed, ".")
	got, err := base64.RawURLEncoding.Strict().DecodeString(mac)
	if !ok || err != nil || !hmac.Equal(got, k.mac(purpose, payload)) {
		return errNotSealed
	}
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return errNotSealed
	}
	return json.Unmarshal(raw, v)
}

func (k *key) mac(purpose, payload string) []byte {
	mac := hmac.New(sha256.New, k.secret)
	fmt.Fprintf(mac, "%d %s%s", len(purpose), purpose, payload)
	return mac.Sum(nil)
}

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// digest returns the stored form of a secret.
func digest(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return base64url(sum[:])
}
