package fleet

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/compose-spec/compose-go/v2/types"
)

// place is where the parts of a topology are on this machine: each host has an address
// of loopback, and each container a directory, in which its mounts are.
type place struct {
	dir   string
	hosts map[string]string // by name
}

// newPlace gives every part an address of its own, so that all can use the ports that
// the compose file says.
func newPlace(dir, network string, t *topology) *place {
	p := &place{dir: dir, hosts: map[string]string{}}
	for _, part := range t.project.AllServices() {
		if len(part.Expose) > 0 {
			p.hosts[host(part)] = ""
		}
	}
	// The number is the same in every profile.
	for i, name := range slices.Sorted(maps.Keys(p.hosts)) {
		p.hosts[name] = fmt.Sprintf("%s.%d", network, i+1)
	}
	// In a small fleet one server of NATS has the names of all.
	for _, part := range t.parts {
		for _, alias := range aliases(part) {
			p.hosts[alias] = p.address(part)
		}
	}
	return p
}

// host is the name by which others reach a part: its own, or the name of the part that it stands in
// for.
func host(part types.ServiceConfig) string {
	if all := aliases(part); len(all) > 0 {
		return all[0]
	}
	return part.Name
}

// aliases are more names of a part.
func aliases(part types.ServiceConfig) (all []string) {
	for _, network := range part.Networks {
		if network != nil {
			all = append(all, network.Aliases...)
		}
	}
	return all
}

// address returns the address of a part.
func (p *place) address(part types.ServiceConfig) string { return p.hosts[host(part)] }

// root is the directory of a part.
func (p *place) root(name string) string { return filepath.Join(p.dir, "parts", name) }

// mount makes a part's directory: volumes and mounted directories are links, mounted files are
// copies with this machine's names in them. A mount inside another one comes after it, as in
// containers.
func (p *place) mount(part types.ServiceConfig) error {
	root := p.root(part.Name)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	volumes := slices.SortedFunc(slices.Values(part.Volumes), func(a, b types.ServiceVolumeConfig) int {
		return strings.Compare(filepath.Clean(a.Target), filepath.Clean(b.Target))
	})
	for _, v := range volumes {
		at := filepath.Join(root, v.Target)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		from := v.Source
		if v.Type == types.VolumeTypeBind {
			if info, err := os.Stat(from); err != nil || !info.IsDir() {
				if err == nil {
					err = p.copyFile(part, from, at)
				}
				if err != nil {
					return err
				}
				continue
			}
		} else {
			from = filepath.Join(p.dir, "volumes", v.Source)
			if v.Volume != nil {
				from = filepath.Join(from, v.Volume.Subpath)
			}
			if err := os.MkdirAll(from, 0o755); err != nil {
				return err
			}
		}
		if err := os.Remove(at); err != nil && !os.IsNotExist(err) {
			return err
		}
		if err := os.Symlink(from, at); err != nil {
			return err
		}
	}
	return nil
}

func (p *place) copyFile(part types.ServiceConfig, from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, []byte(p.here(part, string(raw))), 0o644)
}

// here is a text of a part, an argument, a value or a file, with the names of hosts and
// of mounts as they are on this machine.
func (p *place) here(part types.ServiceConfig, text string) string {
	names := map[string]string{}
	maps.Copy(names, p.hosts)
	for _, v := range part.Volumes {
		names[v.Target] = filepath.Join(p.root(part.Name), v.Target)
	}
	// The longest first: /data/spool before /data.
	order := slices.SortedFunc(maps.Keys(names), func(a, b string) int { return len(b) - len(a) })
	var b strings.Builder
	for i := 0; i < len(text); {
		name := ""
		if i == 0 || !continues(text[i-1]) {
			for _, n := range order {
				rest, found := strings.CutPrefix(text[i:], n)
				if found && (rest == "" || !continues(rest[0])) {
					name = n
					break
				}
			}
		}
		if name == "" {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(names[name])
		i += len(name)
	}
	return b.String()
}

// continues reports whether a byte beside a name makes it another one.
func continues(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.'
}
