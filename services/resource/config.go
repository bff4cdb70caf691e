package resource

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/busbar-mcp/busbar/libs/database"
)

// Config says where resources are kept and what else is read. All but a place
// to keep them is optional.
type Config struct {
	// DatabaseURL is that of Postgres; BUSBAR_DATABASE_URL.
	DatabaseURL string
	// File is where SQLite keeps them if there is no DatabaseURL; resource.db in
	// database.Dir.
	File string
	// FileRoots are directories whose files are read by file:// URIs;
	// BUSBAR_RESOURCE_FILE_ROOTS, separated as in PATH.
	FileRoots []string
	// HTTPAllow are hosts that are read by https:// URIs: example.com,
	// example.com:8443, *.example.com; BUSBAR_RESOURCE_HTTP_ALLOW, separated by
	// commas.
	HTTPAllow []string
	// GitRoots are directories of repositories, or repositories, that are read by
	// git:// URIs; BUSBAR_RESOURCE_GIT_ROOTS, separated as in PATH.
	GitRoots []string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
}

// FromEnv is the configuration in the environment.
func FromEnv() Config {
	cfg := Config{
		DatabaseURL: os.Getenv("BUSBAR_DATABASE_URL"),
		FileRoots:   some(filepath.SplitList(os.Getenv("BUSBAR_RESOURCE_FILE_ROOTS"))),
		HTTPAllow:   some(strings.Split(os.Getenv("BUSBAR_RESOURCE_HTTP_ALLOW"), ",")),
		GitRoots:    some(filepath.SplitList(os.Getenv("BUSBAR_RESOURCE_GIT_ROOTS"))),
	}
	if dir, err := database.Dir("resource"); err == nil { // otherwise New says what is missing
		cfg.File = filepath.Join(dir, "resource.db")
	}
	return cfg
}

// some leaves out what is blank.
func some(all []string) (out []string) {
	for _, s := range all {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}
