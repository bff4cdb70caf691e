package database

import (
	"fmt"
	"os"
	"path/filepath"
)

// Dir is where a program keeps its files unless it is told otherwise:
// BUSBAR_DATA_DIR, or $XDG_STATE_HOME/busbar/<name>, or
// ~/.local/state/busbar/<name>. The name is that of the service, whichever program
// runs it, or of a command that runs a whole system, so that one of these does
// not keep another from starting.
func Dir(name string) (string, error) {
	if dir := os.Getenv("BUSBAR_DATA_DIR"); dir != "" {
		return dir, nil
	}
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no home directory to keep data in; name a directory with --data-dir or BUSBAR_DATA_DIR: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "busbar", name), nil
}
