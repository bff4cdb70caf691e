package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// parseKey reads the 32 bytes of an Ed25519 seed in base64.
func parseKey(text string) (ed25519.PrivateKey, error) {
	seed, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("an audit key is %d random bytes in base64, as \"head -c 32 /dev/urandom | base64\" makes them", ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// loadKey reads a key from a file that only its owner may read. If there is no file, it
// makes the key and the file.
func loadKey(file string) (ed25519.PrivateKey, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(file); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("audit key: %w", err)
		}
		text, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("audit key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("audit key: others may read %s: chmod 600 it, and consider it known", file)
	}
	key, err := parseKey(string(text))
	if err != nil {
		return nil, fmt.Errorf("audit key %s: %w", file, err)
	}
	return key, nil
}

// makeKey writes a key completely or not at all, and never over another one.
func makeKey(file string) error {
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed)                                         // never fails
	draft, err := os.CreateTemp(filepath.Dir(file), ".audit.key-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	_, err = draft.WriteString(base64.StdEncoding.EncodeToString(seed) + "\n")
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return os.Link(draft.Name(), file)
}
