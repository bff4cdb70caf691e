// Package operator decides who may read what an edge keeps for people on its own machine:
// anybody who can read a token in a file of the edge's data directory. A connection from
// this machine proves nothing, because a proxy's connection also comes from it. Issue
// makes the token, Find reads it.
package operator

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/listener"
	"github.com/busbar-mcp/busbar/libs/token"
)

// file is the name of the file with the token of the edge at a port.
func file(dir, port string) string { return filepath.Join(dir, "operator-"+port+".token") }

// Issue makes a token for the edge that listens on l and writes it into the edge's data
// directory, in a file that only the user of this process can read. remove deletes the
// file.
func Issue(dir string, l net.Listener) (made token.Token, remove func(), err error) {
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", nil, fmt.Errorf("operator's token: %w", err)
	}
	made, name := token.Token(rand.Text()), file(dir, port)
	// It makes a new file, so that it never writes to another user's file, or to one that
	// others may read.
	fresh, err := os.CreateTemp(dir, ".operator-*")
	if err != nil {
		return "", nil, fmt.Errorf("operator's token: %w", err)
	}
	_, err = fresh.WriteString(string(made))
	if err = errors.Join(err, fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), name)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("operator's token: %w", err), os.Remove(fresh.Name()))
	}
	return made, func() {
		if now, err := os.ReadFile(name); err == nil && made.Admits(string(now)) {
			_ = os.Remove(name)
		}
	}, nil
}

// ErrNoToken means that no directory has a token for the edge.
var ErrNoToken = errors.New("no operator's token")

// Find returns the token of the edge at a URL, from the directory with the newest one. It
// is only for edges on this machine: a token is never shown to another machine's. The
// error may be ErrNoToken.
func Find(edge string, dirs ...string) (token.Token, error) {
	u, err := url.Parse(edge)
	if err != nil {
		return "", ErrNoToken
	}
	if !listener.IsLoopbackHost(u.Hostname()) {
		return "", fmt.Errorf("%w is for an edge of another machine: %s", ErrNoToken, u.Host)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	var newest fs.FileInfo
	var name string
	for _, dir := range dirs {
		info, err := os.Stat(file(dir, port))
		if err == nil && (newest == nil || info.ModTime().After(newest.ModTime())) {
			newest, name = info, file(dir, port)
		}
	}
	if newest == nil {
		var files []string
		for _, dir := range dirs {
			if name := file(dir, port); !slices.Contains(files, name) { // BUSBAR_DATA_DIR is the same for all programs
				files = append(files, name)
			}
		}
		return "", fmt.Errorf("%w: there is no %s", ErrNoToken, strings.Join(files, " and no "))
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		return "", fmt.Errorf("operator's token: %w", err)
	}
	return token.Token(raw), nil
}
