// Package ci runs the commands that a root's own configuration lists. It reads that configuration, finds
// the files that no command may change, and keeps the runs: how many at once, their output, and how they
// ended. Start at Commands and Runs.
package ci

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/libs/yamljson"
	"github.com/busbar-mcp/busbar/services/workspace/internal/file"
	"github.com/busbar-mcp/busbar/services/workspace/internal/root"
)

// ConfigPath is the file in which people list the commands of a root.
const ConfigPath = ".busbar/workspace.yaml"

const (
	//limit:workspace the file `.busbar/workspace.yaml` | the tool fails
	maxConfig   = 64 << 10
	maxCommands = 100
	maxLine     = 4 << 10
)

// Command is a command that may run.
type Command struct {
	Name string
	// Line is the shell command.
	Line string
	// Report is the JUnit XML file that the command writes, relative to the root; empty if none.
	Report string
}

var commandName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$`)

// Commands reads the commands of a root, ordered by name. It follows no link, so only the file itself
// decides what runs, and no tool here writes it.
func Commands(r *root.Root) ([]Command, error) {
	data, err := read(r.FS)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, service.Errorf("root %s has no %s; a person must write it: ci: and below it one line for each command, such as test: go test ./...", r.Name, ConfigPath)
	}
	var commands []Command
	if err == nil {
		commands, err = parse(data)
	}
	if err != nil {
		return nil, service.Errorf("%s of root %s cannot be used: %s", ConfigPath, r.Name, strings.ToValidUTF8(err.Error(), "?"))
	}
	return commands, nil
}

func read(top *os.Root) ([]byte, error) {
	dir, name, err := root.Parent(top, ConfigPath, false)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	info, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case info.Size() > maxConfig:
		return nil, errors.New("it is larger than 64 KiB")
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, errors.New("it cannot be opened")
	}
	defer func() { _ = f.Close() }()
	if opened, err := f.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, errors.New("it was replaced while being read; try again")
	}
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(data) > maxConfig {
		return nil, errors.New("it cannot be read, or is larger than 64 KiB")
	}
	return data, nil
}

// parse reads the configuration. It refuses unknown keys: otherwise a misspelt one would have no effect.
func parse(data []byte) ([]Command, error) {
	object, err := yamljson.Object(data)
	if err != nil {
		return nil, err
	}
	var config struct {
		CI map[string]jsontext.Value `json:"ci"`
	}
	if err := json.Unmarshal(object, &config, json.RejectUnknownMembers(true)); err != nil {
		return nil, errors.New("it may contain only ci: and below it names and commands")
	}
	if len(config.CI) > maxCommands {
		return nil, errors.New("it has more than 100 commands")
	}
	var commands []Command
	for name, value := range config.CI {
		c := Command{Name: name}
		if value.Kind() == '"' {
			err = json.Unmarshal(value, &c.Line)
		} else {
			var long struct {
				Run    string `json:"run"`
				Report string `json:"report"`
			}
			err = json.Unmarshal(value, &long, json.RejectUnknownMembers(true))
			c.Line, c.Report = long.Run, long.Report
		}
		switch {
		case !commandName.MatchString(name):
			return nil, errors.New("a command's name is not valid; use up to 64 letters, digits, _, -, : and dots")
		case err != nil:
			return nil, errors.New(name + " must be a command, or run: and report:")
		case strings.TrimSpace(c.Line) == "" || len(c.Line) > maxLine || strings.ContainsRune(c.Line, 0):
			return nil, errors.New(name + " must be a command of 1 to 4096 bytes")
		case c.Report != "" && (!filepath.IsLocal(c.Report) || path.Clean(c.Report) != c.Report || strings.ContainsAny(c.Report, "\\\x00") || len(c.Report) > maxLine):
			return nil, errors.New("report of " + name + " must be a file in the root, such as build/junit.xml")
		}
		commands = append(commands, c)
	}
	slices.SortFunc(commands, func(a, b Command) int { return strings.Compare(a.Name, b.Name) })
	return commands, nil
}

const (
	// guardDepth and guardEntries bound the search for paths to guard.
	guardDepth   = 4
	guardEntries = 1_000_000
	//limit:workspace repositories and `.busbar` in a root, which commands cannot change | no command runs
	maxGuarded = 1000
)

// Guarded returns the paths in a root that its commands must not change: files that git runs, this
// service's configuration, and other roots inside this one. A directory that cannot be read is guarded as
// a whole, because a command may have filled or closed it.
func Guarded(ctx context.Context, r *root.Root, others []*root.Root) ([]string, error) {
	var all []string
	guard := func(at string) error {
		if at == "." {
			return service.Errorf("root %s has too many entries in its top directory to find all files that a command must not change; nothing ran", r.Name)
		}
		if all = append(all, at); len(all) > maxGuarded {
			return service.Errorf("root %s has more than %d git repositories, too many to protect from a command; nothing ran", r.Name, maxGuarded)
		}
		return nil
	}
	seen, cut := 0, ""
	options := file.Options{Everything: true, Depth: guardDepth, Unread: func(p root.Place) error { return guard(p.Path) }}
	err := file.Walk(ctx, root.Place{Root: r, FS: r.FS, Path: ".", At: "."}, options, func(e file.Entry) error {
		if seen++; seen > guardEntries {
			return service.Errorf("root %s has more than %d entries, too many to find all files that a command must not change; nothing ran", r.Name, guardEntries)
		}
		at, next := e.Place.Path, fs.SkipDir
		switch {
		case e.Cut:
			if at = path.Dir(at); at == cut {
				return next
			}
			cut = at
		case e.Name == "HEAD" && root.Repository(e.Place) != "":
			at, next = path.Dir(at), nil // git treats it as a repository, whatever its name
		case root.Guarded(e.Name) == "" || e.Mode&fs.ModeSymlink != 0:
			return nil
		}
		if err := guard(at); err != nil {
			return err
		}
		return next
	})
	if err != nil {
		return nil, err
	}
	for _, other := range others {
		if rel, err := filepath.Rel(r.Dir(), other.Dir()); err == nil && other != r && rel != "." && filepath.IsLocal(rel) {
			if err := other.InPlace(); err != nil {
				return nil, err
			}
			all = append(all, filepath.ToSlash(rel))
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
