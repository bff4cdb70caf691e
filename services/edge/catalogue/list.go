package catalogue

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

// Kind is one of the lists of a catalogue.
type Kind uint8

// Kinds of list.
const (
	Tools Kind = iota
	// LegacyTools is Tools for clients before 2026-07-28, whose output schemas describe objects
	// only: other output schemas are left out.
	LegacyTools
	Prompts
	Resources
	Templates
	Skills
	kinds
)

// member is the name of the array in the list's result.
func (k Kind) member() string {
	return [kinds]string{"tools", "tools", "prompts", "resources", "resourceTemplates", "skills"}[k]
}

// key is the member of an entry that names it.
func (k Kind) key() string {
	return [kinds]string{"name", "name", "name", "uri", "uriTemplate", "uri"}[k]
}

// Bounds of one page. The bound in bytes keeps a page below what any proxy on the way passes in
// one message.
const (
	//limit:message entries of a page of a list | the next page has more
	pageItems = 250
	//limit:message bytes of a page of a list | the next page has more
	pageBytes = 512 << 10
)

type item struct {
	name string
	json []byte
}

func byName(it item, name string) int { return strings.Compare(it.name, name) }

// list is sorted by name, with its first page ready to send.
type list struct {
	// member is the name of the array in the list's result.
	member string
	// scope distinguishes the cursors of this list from cursors of other lists.
	scope string
	items []item
	first Page
}

func newList(member, scope string, items []item) list {
	slices.SortFunc(items, func(a, b item) int { return byName(a, b.name) })
	return ready(member, scope, items)
}

// ready is a list of sorted items.
func ready(member, scope string, items []item) list {
	l := list{member: member, scope: scope, items: items}
	l.first = *l.page(0, pageItems, pageBytes)
	l.first.ready = l.first.Append(nil)
	return l
}

// Page is a part of a list.
type Page struct {
	// Next is the cursor of the next page; empty at the end.
	Next string
	// Private: other callers may see something else.
	Private bool

	member string
	items  []item
	bytes  int    // of the items, with commas
	ready  []byte // what Append appends; nil if it is not made yet
}

// Ready is the only page of a list, from the members of the list's result.
func Ready(members []byte) *Page { return &Page{Private: true, ready: members} }

// page returns at most limit entries, or any number if limit is negative. An entry that would make the
// page larger than size is on the next one, unless it is the first.
func (l *list) page(from, limit, size int) *Page {
	p, to := &Page{member: l.member}, from
	for ; to < len(l.items) && to-from != limit && (to == from || p.bytes+len(l.items[to].json) <= size); to++ {
		p.bytes += len(l.items[to].json) + len(",")
	}
	p.items = l.items[from:to:to]
	if from < to && to < len(l.items) {
		p.Next = l.cursor(l.items[to-1].name)
	}
	return p
}

func (p *Page) add(it item) {
	p.items = append(p.items, it)
	p.bytes += len(it.json) + len(",")
}

// Entries are the entries of the page, JSON objects. Don't change them.
func (p *Page) Entries() []jsontext.Value {
	entries := make([]jsontext.Value, len(p.items))
	for i, it := range p.items {
		entries[i] = it.json
	}
	return entries
}

// Size is the largest number of bytes that Append appends.
func (p *Page) Size() int {
	return max(p.bytes+len(p.member)+len(p.Next)+len(`"":[],"nextCursor":""`), len(p.ready))
}

// Append appends the members of a list result, without the braces: "tools":[…] and, if there is
// more, "nextCursor":"…".
func (p *Page) Append(b []byte) []byte {
	if p.ready != nil {
		return append(b, p.ready...)
	}
	b = slices.Grow(b, p.Size())
	b = append(append(append(b, '"'), p.member...), `":[`...)
	for i, it := range p.items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, it.json...)
	}
	b = append(b, ']')
	if p.Next != "" {
		b = append(append(append(b, `,"nextCursor":"`...), p.Next...), '"')
	}
	return b
}

// cursor says after which name the next page starts. A position by name stays valid when entries
// come and go.
func (l *list) cursor(after string) string { return cursorAt(l.scope, after) }

func cursorAt(scope, at string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(scope + "\n" + at))
}

// maxCursor leaves room for the longest name that a catalogue may have.
const maxCursor = 64 << 10

// from is where the page of a cursor starts.
func (l *list) from(cursor []byte) (int, error) {
	if cursor == nil {
		return 0, nil
	}
	after, ok := position(cursor, l.scope)
	if !ok {
		return 0, badCursor()
	}
	i, found := slices.BinarySearchFunc(l.items, after, byName)
	if found {
		i++
	}
	return i, nil
}

func badCursor() error {
	return fault.New(fault.InvalidParams, "params.cursor is not one that this server gave for this list; start again without it")
}

// position reads a cursor of a scope.
func position(cursor []byte, scope string) (at string, ok bool) {
	// The decoder skips line ends.
	if len(cursor) > maxCursor || bytes.ContainsAny(cursor, "\r\n") {
		return "", false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(cursor))
	if err != nil {
		return "", false
	}
	of, at, ok := strings.Cut(string(raw), "\n")
	if !ok || of != scope {
		return "", false
	}
	return at, true
}

// entryLimits bound an entry: a client that cannot read one entry reads none of the list. Clients
// reject more nesting than this. The bus bounds the size of a catalogue.
var entryLimits = mcp.Limits{
	Bytes: maxEntry, Depth: 60, Values: maxEntry, Members: maxEntry, NumberBytes: 400, StringBytes: maxEntry,
}

//limit:service a tool, resource, template or prompt | it is left out
const maxEntry = 1 << 20

// entry checks a service's entry for one of its tools, prompts or resources: it must be a JSON
// object with the offered name. Anything else would spoil the list for every service. The result
// has no line ends, at which some transports end a message.
func (k Kind) entry(name string, raw []byte) ([]byte, error) {
	if err := mcp.Valid(raw, entryLimits); err != nil {
		return nil, fmt.Errorf("its entry is refused: %w", err)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fmt.Errorf("its entry is not a JSON object: %v", err)
	}
	own := members[k.key()]
	if own.Kind() != '"' {
		return nil, fmt.Errorf("its entry has no %s", k.key())
	}
	if text, err := jsontext.AppendUnquote(nil, own); err != nil || string(text) != name {
		return nil, fmt.Errorf("its entry has another %s, %.64s", k.key(), own)
	}
	if bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw, nil
	}
	v := jsontext.Value(bytes.Clone(raw))
	return v, v.Compact()
}

// Entry returns the entry of a name in a list, a JSON object. Don't change it.
func (s *Snapshot) Entry(kind Kind, name string) (entry []byte, ok bool) {
	items := s.lists[kind].items
	i, ok := slices.BinarySearchFunc(items, name, byName)
	if !ok {
		return nil, false
	}
	return items[i].json, true
}
