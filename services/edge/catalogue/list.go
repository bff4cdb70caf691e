package catalogue

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Kind is one of the lists of a catalogue.
type Kind uint8

// Kinds of list.
const (
	Tools Kind = iota
	Prompts
	Resources
	Templates
	kinds
)

// member is the name of the array in the list's result.
func (k Kind) member() string {
	return [kinds]string{"tools", "prompts", "resources", "resourceTemplates"}[k]
}

// Bounds of one page. The bytes bound keeps a page within what a message may
// carry through any proxy on the way.
const (
	pageItems = 250
	pageBytes = 512 << 10
)

type item struct {
	name string
	json []byte
}

// list is sorted by name, its first page ready to send.
type list struct {
	kind  Kind
	items []item
	first []byte
}

func newList(kind Kind, items []item) list {
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	l := list{kind: kind, items: items}
	l.first = l.page(0)
	return l
}

// page returns the members of a list result from an index on, without the
// braces: "tools":[…] and, if there is more, "nextCursor":"…".
func (l *list) page(from int) []byte {
	var b []byte
	b = append(b, '"')
	b = append(b, l.kind.member()...)
	b = append(b, `":[`...)
	i := from
	for ; i < len(l.items) && i-from < pageItems && (i == from || len(b)+len(l.items[i].json) <= pageBytes); i++ {
		if i > from {
			b = append(b, ',')
		}
		b = append(b, l.items[i].json...)
	}
	b = append(b, ']')
	if i < len(l.items) {
		b = append(b, `,"nextCursor":"`...)
		b = append(b, l.cursor(l.items[i-1].name)...)
		b = append(b, '"')
	}
	return b
}

// cursor says after which name the next page starts. A position by name stays
// true when entries come and go.
func (l *list) cursor(after string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(l.kind.member() + "\n" + after))
}

// maxCursor leaves room for the longest name that a catalogue may hold.
const maxCursor = 64 << 10

// Page returns the members of a list's result from a cursor on, nil for the
// first page. The bytes are shared: don't change them.
func (s *Snapshot) Page(kind Kind, cursor []byte) ([]byte, error) {
	l := &s.lists[kind]
	if cursor == nil {
		return l.first, nil
	}
	bad := fault.New(fault.InvalidParams, "params.cursor is not one that this server gave for this list; start again without it")
	if len(cursor) > maxCursor {
		return nil, bad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(string(cursor))
	if err != nil {
		return nil, bad
	}
	after, ok := bytes.CutPrefix(raw, []byte(kind.member()+"\n"))
	if !ok {
		return nil, bad
	}
	i, found := slices.BinarySearchFunc(l.items, string(after), func(it item, name string) int { return strings.Compare(it.name, name) })
	if found {
		i++
	}
	return l.page(i), nil
}

// oneLine takes the line ends out of an entry: some transports end a message
// at one.
func oneLine(json []byte) []byte {
	if bytes.IndexByte(json, '\n') < 0 && bytes.IndexByte(json, '\r') < 0 {
		return json
	}
	v := jsontext.Value(bytes.Clone(json))
	if err := v.Compact(); err != nil {
		return []byte("{}")
	}
	return v
}
