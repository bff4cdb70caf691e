package catalogue

import (
	"regexp"
	"strings"

	"github.com/yosida95/uritemplate/v3"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// MaxURI is the longest URI, or URI template, that a client may name, in bytes.
//
//limit:message a URI that a client names | `too_large`
const MaxURI = 2 << 10

// CheckURI refuses a URI that is longer than any that is served. Doors ask before they do
// anything with the URI; the error has reason TooLarge.
func CheckURI(uri string) error {
	if len(uri) > MaxURI {
		return fault.New(fault.TooLarge, "a URI has at most %d bytes; this one has %d", MaxURI, len(uri))
	}
	return nil
}

// template is a URI template of a service.
type template struct {
	uri    string
	target Target
	// begins is the literal text before the first expression: it is enough to tell most URIs
	// apart.
	begins string
	// loose matches every expansion, in time proportional to the length of the URI.
	loose *regexp.Regexp
	// pattern decides if loose also matches texts that are not expansions; nil otherwise. It is
	// about fifty times slower.
	pattern *uritemplate.Template
}

// plain matches the expressions that loose describes completely: without names in the expansion,
// lists or lengths.
var plain = regexp.MustCompile(`\{[+#./]?[^?&;*:{}]+\}`)

func newTemplate(uri string, target Target) (template, error) {
	pattern, err := uritemplate.New(uri)
	if err != nil {
		return template{}, err
	}
	t := template{uri: uri, target: target, loose: pattern.Regexp()}
	t.begins, _, _ = strings.Cut(uri, "{")
	if strings.Contains(plain.ReplaceAllLiteralString(uri, ""), "{") {
		t.pattern = pattern
	}
	return t, nil
}

// matches reports whether a URI of at most MaxURI bytes is an expansion.
func (t *template) matches(uri string) bool {
	return strings.HasPrefix(uri, t.begins) && t.loose.MatchString(uri) && (t.pattern == nil || t.pattern.Match(uri) != nil)
}
