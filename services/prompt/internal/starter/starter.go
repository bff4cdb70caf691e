// Package starter holds the prompts that come with Busbar. Start at Prompts; the files are in prompts/.
package starter

import (
	"embed"
	"fmt"
	"path"

	"github.com/busbar-mcp/busbar/services/prompt/internal/template"
)

//go:embed prompts/*.yaml
var files embed.FS

// Prompts returns the definitions, ordered by name.
func Prompts() ([]*template.Definition, error) {
	entries, err := files.ReadDir("prompts")
	if err != nil {
		return nil, err
	}
	var all []*template.Definition
	for _, e := range entries {
		file, err := files.ReadFile(path.Join("prompts", e.Name()))
		if err != nil {
			return nil, err
		}
		d, err := template.FromYAML(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		if d.Name+".yaml" != e.Name() {
			return nil, fmt.Errorf("the file %s contains the prompt %s; name the file after it", e.Name(), d.Name)
		}
		all = append(all, d)
	}
	return all, nil
}
