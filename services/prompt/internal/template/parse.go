package template

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Limits of one text.
const (
	maxDepth = 8
	maxNodes = 4000
)

// node is a part of a text. Exactly one of its kinds is set.
type node struct {
	// literal is text as it is.
	literal string
	// name is the argument inserted here. fenced puts its value in a Markdown code block;
	// the value of info is the block's language.
	name, info string
	fenced     bool
	// branches are the branches of a condition; the first one that holds is used.
	branches []branch
	// each is the list over which body is repeated.
	each string
	body []node
}

type branch struct {
	when condition
	body []node
}

// condition compares an argument with a text, or tests whether it is set. The zero
// condition holds.
type condition struct {
	name string
	not  bool
	is   *string
}

// Names defined inside a loop.
const (
	this   = "this"
	number = "@number"
)

// token is a part of the source: text, or a tag without its braces.
type token struct {
	text string
	tag  bool
	line int
}

// lex cuts the source into text and tags. A structural tag alone on a line removes the
// line, too.
func lex(source string) ([]token, error) {
	var out []token
	line, begins := 1, true // begins: the next character begins a line
	for {
		open := strings.Index(source, "{{")
		if open < 0 {
			return append(out, token{text: source, line: line}), nil
		}
		text, at := source[:open], line+strings.Count(source[:open], "\n")
		inside, rest, ok := cutTag(source[open+2:])
		if !ok {
			return nil, fmt.Errorf("line %d: {{ has no }} on the same line; to get the characters themselves, write {{\"{{\"}}", at)
		}
		inside, source = strings.TrimSpace(inside), rest
		next := at
		before := text[strings.LastIndexByte(text, '\n')+1:]
		begins = (begins || len(before) < len(text)) && strings.Trim(before, " \t") == ""
		if after, alone := blankHead(source); structural(inside) && begins && alone {
			text = text[:len(text)-len(before)]
			source = source[after:]
			next++
		} else {
			begins = false
		}
		out = append(out, token{text: text, line: line}, token{text: inside, tag: true, line: at})
		line = next
	}
}

// cutTag finds the end of a tag. Braces in a quoted text do not end it.
func cutTag(s string) (inside, rest string, ok bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\n':
			return "", "", false
		case !quoted && strings.HasPrefix(s[i:], "}}"):
			return s[:i], s[i+2:], true
		}
	}
	return "", "", false
}

func structural(tag string) bool {
	return strings.HasPrefix(tag, "#") || strings.HasPrefix(tag, "/") || strings.HasPrefix(tag, "!") || tag == "else" || strings.HasPrefix(tag, "else ")
}

// blankHead reports whether the rest of the line is empty, and returns the start of the
// next line.
func blankHead(s string) (after int, alone bool) {
	end := strings.IndexByte(s, '\n')
	if end < 0 {
		return len(s), strings.TrimSpace(s) == ""
	}
	return end + 1, strings.TrimSpace(s[:end]) == ""
}

// parser turns tokens into nodes, for the given arguments.
type parser struct {
	tokens    []token
	at        int
	arguments map[string]*Argument
	nodes     int
	depth     int
	loops     int
}

func parse(source string, arguments map[string]*Argument) ([]node, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	p := &parser{tokens: tokens, arguments: arguments}
	body, end, err := p.body()
	if err != nil {
		return nil, err
	}
	if end != nil {
		return nil, fmt.Errorf("line %d: {{%s}} has no matching opening tag", end.line, end.text)
	}
	return body, nil
}

// body reads nodes until a tag that belongs to the enclosing block; the tag is nil at the
// end of the source.
func (p *parser) body() ([]node, *token, error) {
	if p.depth++; p.depth > maxDepth+1 {
		return nil, nil, fmt.Errorf("line %d: blocks are nested too deeply; the limit is %d", p.tokens[p.at].line, maxDepth)
	}
	defer func() { p.depth-- }()
	var out []node
	for p.at < len(p.tokens) {
		t := &p.tokens[p.at]
		p.at++
		if t.tag && (strings.HasPrefix(t.text, "/") || t.text == "else" || strings.HasPrefix(t.text, "else ")) {
			return out, t, nil
		}
		if !t.tag && t.text == "" || t.tag && strings.HasPrefix(t.text, "!") {
			continue
		}
		if p.nodes++; p.nodes > maxNodes {
			return nil, nil, fmt.Errorf("line %d: the text has too many parts; the limit is %d", t.line, maxNodes)
		}
		n, err := p.node(t)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, n)
	}
	return out, nil, nil
}

func (p *parser) node(t *token) (n node, err error) {
	defer func() {
		if err != nil && !strings.HasPrefix(err.Error(), "line ") {
			err = fmt.Errorf("line %d: {{%s}}: %w", t.line, t.text, err)
		}
	}()
	words := strings.Fields(t.text)
	switch {
	case !t.tag:
		return node{literal: t.text}, nil
	case strings.HasPrefix(t.text, `"`):
		text, err := strconv.Unquote(t.text)
		if err != nil {
			return n, fmt.Errorf("it is not a quoted text")
		}
		return node{literal: text}, nil
	case len(words) > 1 && words[0] == "#if":
		return p.condition(t)
	case len(words) == 2 && words[0] == "#each":
		return p.loop(t, words[1])
	case (len(words) == 2 || len(words) == 3) && words[0] == "fenced":
		n = node{name: words[1], fenced: true}
		if len(words) == 3 {
			n.info = words[2]
		}
		_, err = p.known(n.name)
		if err == nil && n.info != "" {
			_, err = p.known(n.info)
		}
		return n, err
	case len(words) == 1 && !strings.HasPrefix(t.text, "#"):
		_, err = p.known(words[0])
		return node{name: words[0]}, err
	}
	return n, fmt.Errorf("it is not valid; use one of {{argument}}, {{fenced argument}}, {{#if …}}, {{#each argument}} and {{\"text\"}}")
}

// known finds an argument, or a name of the loop.
func (p *parser) known(name string) (*Argument, error) {
	if p.loops > 0 && (name == this || name == number) {
		return &Argument{Name: name, Type: String}, nil
	}
	if a := p.arguments[name]; a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("there is no argument %.80q", name)
}

func (p *parser) loop(t *token, name string) (node, error) {
	a, err := p.known(name)
	if err != nil {
		return node{}, err
	}
	if a.Type != List {
		return node{}, fmt.Errorf("%s is not of type list", name)
	}
	p.loops++
	body, end, err := p.body()
	p.loops--
	if err != nil {
		return node{}, err
	}
	if end == nil || end.text != "/each" {
		return node{}, fmt.Errorf("it has no {{/each}}")
	}
	return node{each: name, body: body}, nil
}

func (p *parser) condition(t *token) (node, error) {
	n := node{branches: []branch{}}
	text, last := strings.TrimPrefix(t.text, "#if"), false
	for {
		b := branch{}
		var err error
		if !last {
			if b.when, err = p.when(text); err != nil {
				return n, err
			}
		}
		var end *token
		if b.body, end, err = p.body(); err != nil {
			return n, err
		}
		n.branches = append(n.branches, b)
		switch {
		case end == nil || strings.HasPrefix(end.text, "/") && end.text != "/if":
			return n, fmt.Errorf("it has no {{/if}}")
		case end.text == "/if":
			return n, nil
		case last:
			return n, fmt.Errorf("line %d: {{%s}} must not follow {{else}}", end.line, end.text)
		case end.text == "else":
			last = true
		default:
			var ok bool
			if text, ok = strings.CutPrefix(strings.Join(strings.Fields(end.text), " "), "else if"); !ok {
				return n, fmt.Errorf("line %d: {{%s}} is neither {{else}} nor {{else if …}}", end.line, end.text)
			}
		}
	}
}

var comparison = regexp.MustCompile(`^\s*([A-Za-z_@][A-Za-z0-9_]*)\s*(==|!=)\s*("(?:[^"\\]|\\.)*")\s*$`)

// when reads: name, not name, name == "text", name != "text".
func (p *parser) when(s string) (condition, error) {
	if m := comparison.FindStringSubmatch(s); m != nil {
		is, err := strconv.Unquote(m[3])
		if err != nil {
			return condition{}, fmt.Errorf("%s is not a quoted text", m[3])
		}
		a, err := p.known(m[1])
		if err != nil {
			return condition{}, err
		}
		if a.Type == List {
			return condition{}, fmt.Errorf("%s is a list; compare its items in a loop", a.Name)
		}
		// A comparison that can never hold is a mistake.
		v, err := a.parse(is)
		if err != nil {
			return condition{}, fmt.Errorf("%q: it %w", is, err)
		}
		return condition{name: m[1], not: m[2] == "!=", is: &v.text}, nil
	}
	words := strings.Fields(s)
	c := condition{}
	switch {
	case len(words) == 1:
		c.name = words[0]
	case len(words) == 2 && words[0] == "not":
		c.name, c.not = words[1], true
	default:
		return c, fmt.Errorf("a condition must be one of: name, not name, name == \"text\", or name != \"text\"")
	}
	_, err := p.known(c.name)
	return c, err
}
