package access

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// Service is what a service may do besides answering calls of its own offers, whatever it
// says of itself.
type Service struct {
	// Offers are patterns of the names that it may offer.
	Offers []string `json:"offers,omitzero"`
	// Calls are patterns of the tools that its own tools may call.
	Calls []string `json:"calls,omitzero"`
	// CacheForAll allows the edge to share cached results among all callers, if the
	// service says that they are the same for all.
	CacheForAll bool `json:"cache_for_all,omitzero"`
	// ReadOnly are patterns of its tools that are believed when they say that they change
	// nothing; nil for all.
	ReadOnly []string `json:"read_only,omitzero"`
	// Timeout is how long its calls may take, if the service asks for that.
	Timeout Duration `json:"timeout,omitzero"`
}

// Duration is a time in the notation of people, such as 90s or 5m.
type Duration time.Duration

// maxTimeout bounds the timeout that a service can be granted.
//
//limit:policy `timeout` of a service; a run of a task has 23 h at most
const maxTimeout = 24 * time.Hour

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	t, err := time.ParseDuration(string(text))
	if err != nil || t <= 0 || t > maxTimeout {
		return fmt.Errorf("%q is not a duration from 1s to 24h, such as 90s or 5m", text)
	}
	*d = Duration(t)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// others stand for every service without an entry of its own.
const others = "*"

// unsaid is what services may do if the file has no section services.
var unsaid = map[string]Service{others: {Offers: []string{"*"}}}

// service is a service of the file, compiled.
type service struct {
	Service
	// readOnly is nil if all its tools are believed.
	calls, readOnly *index
}

// services compiles the section services.
func (c *compiler) services(p *Policy) {
	all := p.file.Services
	if all == nil {
		c.given("/services", `say what services may do, "services: {}" for nothing, or leave the key out, by which any service may offer any name`)
		all = unsaid
	}
	p.services, p.by = map[string]*service{}, map[string][]string{}
	var offers []pattern
	for _, name := range slices.Sorted(maps.Keys(all)) {
		at, s := place("services", name), all[name]
		if err := bus.ValidName(name); err != nil && name != others {
			c.at(at, "%v", err)
		}
		for _, one := range c.patterns(at.AppendToken("offers"), s.Offers) {
			if p.by[one.text] == nil {
				offers = append(offers, one)
			}
			p.by[one.text] = append(p.by[one.text], name)
		}
		made := &service{Service: s, calls: newIndex(c.toolPatterns(at.AppendToken("calls"), s.Calls))}
		if readOnly := at.AppendToken("read_only"); s.ReadOnly != nil {
			made.readOnly = newIndex(c.toolPatterns(readOnly, s.ReadOnly))
		} else {
			c.given(readOnly, "read_only is a list, [] for no tool, or is left out, by which the word of the service counts")
		}
		p.services[name] = made
	}
	p.offers = newIndex(offers)
	switch pin := p.file.Pin; pin {
	case "strict":
	case "":
		c.given("/pin", `pin is "strict", or is left out`)
	default:
		c.at("/pin", "pin is \"strict\", or is left out")
	}
}

// given refuses a key without a value if the empty value would open what the key is there
// to close.
func (c *compiler) given(at jsontext.Pointer, problem string) {
	if _, there := c.lines[at]; there {
		c.at(at, "%s", problem)
	}
}

// service is the entry of a service; nil without one.
func (p *Policy) service(name string) *service {
	if s := p.services[name]; s != nil {
		return s
	}
	return p.services[others]
}

// Calls reports whether the tools of a service may call a tool, on behalf of a caller
// that may call it.
func (p *Policy) Calls(of, tool string) bool {
	s := p.service(of)
	return s != nil && s.calls.find(Tools, tool) != nil
}

// Powers implements catalogue.Grants.
func (p *Policy) Powers(of string) catalogue.Powers {
	s := p.service(of)
	if s == nil {
		return catalogue.Powers{}
	}
	return catalogue.Powers{Calls: !s.calls.empty(Tools), CacheShared: s.CacheForAll, Timeout: time.Duration(s.Timeout)}
}

// ReadOnly implements catalogue.Grants.
func (p *Policy) ReadOnly(of, tool string) bool {
	s := p.service(of)
	return s == nil || s.readOnly == nil || s.readOnly.find(Tools, tool) != nil
}

// Offers implements catalogue.Grants. If several patterns fit a name, one without a *
// counts before one with, and then the one with the longest text before its first *. The
// services that have this pattern may offer the name, and no others.
func (p *Policy) Offers(of string, n catalogue.Name) (ok bool, whose string) {
	kind, name := offer(of, n)
	var best *pattern
	var granted []string
	for one := range p.offers.fitting(kind, name) {
		if best != nil && len(one.literal) < len(best.literal) {
			break
		}
		if best != nil && best.exact && !one.exact {
			continue
		}
		if best != nil && one.exact && !best.exact {
			granted = nil
		}
		best, granted = one, append(granted, p.by[one.text]...)
	}
	if slices.Contains(granted, of) || slices.Contains(granted, others) && p.services[of] == nil {
		return true, ""
	}
	slices.Sort(granted)
	return false, strings.Join(slices.Compact(granted), ", ")
}

// Pinned implements catalogue.Grants.
func (p *Policy) Pinned() bool { return p.file.Pin == "strict" }

// offer is the target that a pattern has to fit for a service to have a name. An offer
// that stands for many names ends with a *, which only a * of the pattern fits.
func offer(service string, n catalogue.Name) (Kind, string) {
	switch n.Kind {
	case catalogue.ToolName:
		return Tools, n.Name
	case catalogue.PromptName:
		return Prompts, n.Name
	case catalogue.TenantPromptsName:
		return Prompts, "*"
	case catalogue.ModelName:
		return Sampling, createMessage
	case catalogue.SkillName:
		return Resources, mcp.SkillURI(service, n.Name, mcp.SkillFile)
	case catalogue.TemplateName:
		begins, _, _ := strings.Cut(n.Name, "{")
		return Resources, begins + "*"
	case catalogue.PrefixName:
		return Resources, n.Name + "*"
	}
	return Resources, n.Name
}

// Grants are the rights of services now; for catalogue.Config.
func (l *Live) Grants() catalogue.Grants { return l.Now() }

// Calls implements gateway.Access.
func (l *Live) Calls(service, tool string) bool { return l.Now().Calls(service, tool) }
