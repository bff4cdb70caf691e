package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// keyVariable names the file with the key that a release is signed with: an Ed25519 key in
// PEM, as openssl genpkey writes it. Without it nothing is signed.
const keyVariable = "RELEASE_KEY"

// sign writes the signature of a file beside it, raw as openssl pkeyutl takes it.
func sign(file string) error {
	name := os.Getenv(keyVariable)
	if name == "" {
		return errors.New(keyVariable + " is not set: it names the file with the key")
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s: %w", keyVariable, err)
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PRIVATE KEY" {
		return errors.New(keyVariable + ": no private key in PEM without a password; make one with openssl genpkey -algorithm ed25519")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", keyVariable, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return fmt.Errorf("%s: a key for %T; make one with openssl genpkey -algorithm ed25519", keyVariable, parsed)
	}
	said, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file+".sig", ed25519.Sign(key, said), 0o644)
}
