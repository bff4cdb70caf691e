package graphql

import (
	"strconv"
	"strings"
	"text/scanner"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Bounds of one document, checked before it is parsed.
const (
	//limit:message levels of a GraphQL document | `too_large`
	maxDepth = 8
	//limit:message tokens of a GraphQL document | `too_large`
	maxTokens = 2_000
	//limit:message aliases of a GraphQL document | `too_large`
	maxAliases = 15
	//limit:message fields of a GraphQL document | `too_large`
	maxFields = 300
	// maxIntrospection is the depth of a query for the schema: the depth of the queries
	// that clients send.
	maxIntrospection = 20
)

// recursive are the fields of the schema's own description that lead from a type
// to others. A query that has one of them twice may grow without end.
var recursive = map[string]bool{
	"__schema": true, "types": true, "fields": true, "inputFields": true, "interfaces": true, "possibleTypes": true,
}

// outline is a rough description of a document.
type outline struct {
	sc scanner.Scanner

	tokens, operations, aliases, fields int
	// braces and parens count the open braces of selections and parentheses of arguments.
	braces, parens int
	seen           map[string]int
	// introspects is set if the document asks for the schema.
	introspects bool
	// variables are the variables that the operation declares, with the text of their
	// types; declares is the one whose type comes next.
	variables map[string]string
	declares  string
	bad       *fault.Error
}

// scan looks for constructs in a document that are expensive to parse, validate or carry
// out. It cuts tokens as the parser does. It never finds fewer than there are: fragments
// hide nothing, since each alias stands somewhere.
func scan(query string) (*outline, error) {
	o := &outline{seen: map[string]int{}, variables: map[string]string{}}
	o.sc.Init(strings.NewReader(query))
	o.sc.Mode = scanner.ScanIdents | scanner.ScanInts | scanner.ScanFloats | scanner.ScanStrings
	o.sc.Error = func(_ *scanner.Scanner, message string) {
		o.refuse(fault.ParseError, "syntax error: %s", message)
	}
	last := rune(0)
	definition := true // one begins with the next token
	for o.bad == nil {
		next := o.sc.Scan()
		switch next {
		case scanner.EOF:
			if o.operations > 1 {
				return nil, fault.New(fault.InvalidRequest, "a request has one operation; send %d requests", o.operations)
			}
			return o, nil
		case ',':
			continue
		case '#':
			o.comment()
			continue
		}
		if o.tokens++; o.tokens > maxTokens {
			o.refuse(fault.TooLarge, "a query has at most %d tokens", maxTokens)
			break
		}
		text := o.sc.TokenText()
		if o.braces == 0 && o.parens == 0 {
			if definition && (next == '{' || next == scanner.Ident && text != "fragment") {
				o.operations++
			}
			definition = false
		}
		o.token(next, last, text)
		definition = definition || next == '}' && o.braces == 0 && o.parens == 0
		last = next
	}
	return nil, o.bad
}

func (o *outline) refuse(r fault.Reason, format string, args ...any) {
	if o.bad == nil {
		o.bad = fault.New(r, format, args...)
	}
}

func (o *outline) token(next, last rune, text string) {
	switch next {
	case '(':
		o.parens++
	case ')':
		o.parens--
	case scanner.Int, scanner.Float:
		o.number(next, text)
	case scanner.String:
		o.text(text)
	default:
		if last == '-' {
			o.refuse(fault.ParseError, "syntax error: a number must follow -")
		}
	}
	if o.parens > 0 {
		if o.braces == 0 {
			o.declaration(next, last, text)
		}
		return
	}
	switch next {
	case '{':
		o.braces++
	case '}':
		o.braces--
	case ':':
		if o.aliases++; o.aliases > maxAliases {
			o.refuse(fault.TooLarge, "a query has at most %d aliases; use executeTools for many calls", maxAliases)
		}
	case scanner.Ident:
		o.field(text)
	}
}

func (o *outline) field(name string) {
	if o.braces == 0 {
		return
	}
	if o.fields++; o.fields > maxFields {
		o.refuse(fault.TooLarge, "a query has at most %d fields", maxFields)
	}
	if name == "__schema" || name == "__type" {
		o.introspects = true
	}
	if recursive[name] {
		if o.seen[name]++; o.introspects && o.seen[name] > 1 {
			o.refuse(fault.TooLarge, "a query for the schema has %s once", name)
		}
	}
}

// declaration notes the type of a variable: $name: [Type!]!
func (o *outline) declaration(next, last rune, text string) {
	switch {
	case next == scanner.Ident && last == '$':
		o.declares = text
	case next == '=' || next == '@' || next == '$':
		o.declares = ""
	case o.declares != "" && (next == scanner.Ident || next == '[' || next == ']' || next == '!'):
		o.variables[o.declares] += text
	}
}

// number refuses numbers that the parser has no value for.
func (o *outline) number(kind rune, text string) {
	var err error
	if kind == scanner.Int {
		_, err = strconv.ParseInt(text, 10, 64)
	} else {
		_, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		o.refuse(fault.InvalidParams, "the number %s cannot stand in a query; send it in variables", fault.Clip(text))
	}
}

// text checks a string. The token of a block string is the empty string at its beginning.
func (o *outline) text(token string) {
	if token == `""` && o.sc.Peek() == '"' {
		o.sc.Next()
		for quotes := 0; quotes < 3; {
			switch o.sc.Next() {
			case '"':
				quotes++
			case scanner.EOF:
				o.refuse(fault.ParseError, "syntax error: a string does not end")
				return
			default:
				quotes = 0
			}
		}
		return
	}
	if _, err := strconv.Unquote(token); err != nil {
		o.refuse(fault.InvalidParams, "a string of the query has an escape sequence that cannot stand there; send it in variables")
	}
}

func (o *outline) comment() {
	for {
		switch o.sc.Next() {
		case '\r', '\n', scanner.EOF:
			return
		}
	}
}
