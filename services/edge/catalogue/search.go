package catalogue

import "github.com/busbar-mcp/busbar/services/edge/search"

// Tools are all tools of the snapshot's list, sorted by name.
func (s *Snapshot) Tools() []search.Tool {
	items := s.lists[Tools].items
	all := make([]search.Tool, len(items))
	for i, it := range items {
		all[i] = search.Tool{Name: it.name, Entry: it.json}
	}
	return all
}

// Count is how many entries a list has.
func (s *Snapshot) Count(kind Kind) int { return len(s.lists[kind].items) }

// ToolsOf are the tools that the snapshot shows of one, by the name that its service
// gives it: several where a toolset has it several times, none where it is not shown.
func (s *Snapshot) ToolsOf(own string) (all []search.Tool) {
	shown := []string{own}
	if s.set != nil {
		if !s.set.Tools.Has(own) {
			return nil
		}
		shown = s.set.Tools.Aliases(own)
	}
	for _, name := range shown {
		if entry, ok := s.Entry(Tools, name); ok {
			all = append(all, search.Tool{Name: name, Entry: entry})
		}
	}
	return all
}
