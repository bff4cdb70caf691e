// Package template is the template of a prompt: what it is made of, the small
// language of its texts, and how it becomes messages. The language has
// conditions and loops, and nothing that could reach beyond the arguments.
package template

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/busbar-mcp/busbar/libs/yamljson"
)

// Limits of one template.
const (
	// MaxDefinition is the most bytes of a definition, as JSON.
	MaxDefinition = 128 << 10
	maxName       = 64
	maxTitle      = 200
	maxAbout      = 1000
	maxArguments  = 32
	maxMessages   = 32
	maxParts      = 16
	maxVariants   = 32
	maxChoices    = 100
	maxChoice     = 200
)

// Definition is a template as its author writes it.
type Definition struct {
	// Name is 1 to 64 characters of a-z, A-Z, 0-9, _, - and dot.
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// Language is that of Messages, a tag of BCP 47; empty is "en".
	Language  string     `json:"language,omitzero"`
	Arguments []Argument `json:"arguments,omitempty"`
	Messages  []Message  `json:"messages"`
	// Variants are the same in other languages. A template that has some takes
	// the argument LanguageArgument.
	Variants map[string]Variant `json:"variants,omitempty"`
}

// LanguageArgument chooses among variants: tags of BCP 47, the best first.
const LanguageArgument = "lang"

// Type is that of an argument's value. On the wire every value is a string.
type Type string

// Types of arguments.
const (
	String  Type = "string"
	Integer Type = "integer" // within ±(2⁵³−1)
	Number  Type = "number"
	Boolean Type = "boolean" // "true" or "false"
	Enum    Type = "enum"    // one of Values
	List    Type = "list"    // one text a line; texts of a single line between commas
)

// Argument is what a prompt can be given.
type Argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// Type is String if empty.
	Type     Type `json:"type,omitzero"`
	Required bool `json:"required,omitzero"`
	// Default stands for an argument that is not given; nil for none.
	Default *string `json:"default,omitzero"`
	// Values are those of an enum.
	Values []string `json:"values,omitempty"`
	// Suggestions complete what somebody types; other values are as good.
	Suggestions []string `json:"suggestions,omitempty"`
}

// Message is one message, or one for each of its parts: on the wire a message
// has one.
type Message struct {
	// Role is "user" or "assistant".
	Role    string `json:"role"`
	Content []Part `json:"content"`
}

// Variant are the messages in another language.
type Variant struct {
	Messages []Message `json:"messages"`
}

// Part is a piece of a message.
type Part struct {
	// Type is "text", "image", "resource" or "resource_link".
	Type string `json:"type"`
	// Text is a template for type text. For a resource it is what it holds, as
	// it is.
	Text string `json:"text,omitzero"`
	// Data is an image.
	Data     []byte `json:"data,omitzero"`
	MIMEType string `json:"mimeType,omitzero"`
	// URI is a resource's; Name, Title and Description say what a link leads to.
	URI         string `json:"uri,omitzero"`
	Name        string `json:"name,omitzero"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
}

// FromYAML reads a definition from a file. Unknown names are refused, as is
// YAML that its readers disagree about.
func FromYAML(file []byte) (*Definition, error) {
	if len(file) > MaxDefinition {
		return nil, fmt.Errorf("the file is longer than %d KiB", MaxDefinition>>10)
	}
	object, err := yamljson.Object(file)
	if err != nil {
		return nil, err
	}
	return FromJSON(object)
}

// FromJSON reads a definition. Unknown members are refused. It may still make
// no template: see Compile.
func FromJSON(object []byte) (*Definition, error) {
	d := &Definition{}
	if err := json.Unmarshal(object, d, json.RejectUnknownMembers(true)); err != nil {
		var at *json.SemanticError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("%s: %w", at.JSONPointer, at.Err)
		}
		return nil, err
	}
	return d, nil
}

// JSON is the definition as it is kept; equal definitions have equal bytes.
func (d *Definition) JSON() ([]byte, error) { return json.Marshal(d, json.Deterministic(true)) }

var (
	name     = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	argument = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	tag      = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$`)
)

func (d *Definition) check() error {
	raw, err := d.JSON()
	switch {
	case err != nil:
		return err
	case len(raw) > MaxDefinition:
		return fmt.Errorf("it takes %d bytes as JSON; the limit is %d", len(raw), MaxDefinition)
	case !name.MatchString(d.Name):
		return fmt.Errorf("name: use 1 to %d characters of a-z, A-Z, 0-9, _, - and dot", maxName)
	case d.Language != "" && !tag.MatchString(d.Language):
		return fmt.Errorf("language: %.20q is not a tag of BCP 47, such as en or zh-Hant", d.Language)
	case len(d.Arguments) > maxArguments:
		return fmt.Errorf("arguments: at most %d", maxArguments)
	case len(d.Variants) > maxVariants:
		return fmt.Errorf("variants: at most %d", maxVariants)
	}
	if err := about(d.Title, d.Description); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range d.Arguments {
		a := &d.Arguments[i]
		if err := a.check(); err != nil {
			return fmt.Errorf("argument %.80q: %w", a.Name, err)
		}
		if seen[a.Name] {
			return fmt.Errorf("argument %q appears twice", a.Name)
		}
		seen[a.Name] = true
	}
	if seen[LanguageArgument] && len(d.Variants) > 0 {
		return fmt.Errorf("argument %q is there by itself in a template with variants", LanguageArgument)
	}
	tags := map[string]bool{strings.ToLower(d.language()): true}
	for t := range d.Variants {
		if !tag.MatchString(t) {
			return fmt.Errorf("variant %.20q: it is not a tag of BCP 47, such as pl or zh-Hant", t)
		}
		if tags[strings.ToLower(t)] {
			return fmt.Errorf("variant %q: there is that language already", t)
		}
		tags[strings.ToLower(t)] = true
	}
	return nil
}

func (d *Definition) language() string {
	if d.Language == "" {
		return "en"
	}
	return d.Language
}

func about(title, description string) error {
	switch {
	case len(title) > maxTitle:
		return fmt.Errorf("title: at most %d bytes", maxTitle)
	case len(description) > maxAbout:
		return fmt.Errorf("description: at most %d bytes", maxAbout)
	}
	return nil
}

func (a *Argument) check() error {
	if !argument.MatchString(a.Name) || a.Name == "this" {
		return errors.New("use 1 to 64 characters of a-z, A-Z, 0-9 and _ for its name, no digit first, and not the word this")
	}
	if err := about(a.Title, a.Description); err != nil {
		return err
	}
	if a.Type == "" {
		a.Type = String
	}
	switch a.Type {
	case String, Integer, Number, Boolean, List:
		if len(a.Values) > 0 {
			return errors.New("values are for type enum; others have suggestions")
		}
	case Enum:
		if len(a.Values) == 0 || len(a.Suggestions) > 0 {
			return errors.New("type enum needs values, and no suggestions")
		}
	default:
		return fmt.Errorf("type %.20q is not one of string, integer, number, boolean, enum and list", a.Type)
	}
	for _, list := range [][]string{a.Values, a.Suggestions} {
		if len(list) > maxChoices {
			return fmt.Errorf("at most %d values or suggestions", maxChoices)
		}
		for i, v := range list {
			if v == "" || len(v) > maxChoice {
				return fmt.Errorf("a value or suggestion has 1 to %d bytes", maxChoice)
			}
			for _, other := range list[:i] {
				if v == other {
					return fmt.Errorf("%q appears twice", v)
				}
			}
			if _, err := a.parse(v); err != nil {
				return fmt.Errorf("suggestion %q: it %w", v, err)
			}
		}
	}
	if a.Default == nil {
		return nil
	}
	if a.Required {
		return errors.New("a required argument has no use for a default")
	}
	if _, err := a.parse(*a.Default); err != nil {
		return fmt.Errorf("its default %w", err)
	}
	return nil
}

func (p *Part) check() error {
	only := func(text, data, mimeType, uri, about bool) error {
		for _, f := range []struct {
			name     string
			has, may bool
		}{
			{"text", p.Text != "", text}, {"data", len(p.Data) > 0, data}, {"mimeType", p.MIMEType != "", mimeType},
			{"uri", p.URI != "", uri}, {"name", p.Name != "", about}, {"title", p.Title != "", about}, {"description", p.Description != "", about},
		} {
			if f.has && !f.may {
				return fmt.Errorf("a part of type %s has no %s", p.Type, f.name)
			}
		}
		return nil
	}
	if p.MIMEType != "" {
		if _, _, err := mime.ParseMediaType(p.MIMEType); err != nil || !strings.Contains(p.MIMEType, "/") {
			return fmt.Errorf("mimeType %.80q is not one", p.MIMEType)
		}
	}
	if err := about(p.Title, p.Description); err != nil {
		return err
	}
	switch p.Type {
	case "text":
		return only(true, false, false, false, false)
	case "image":
		return errors.Join(only(false, true, true, false, false), checkImage(p.MIMEType, p.Data))
	case "resource":
		return errors.Join(only(true, false, true, true, false), checkURI(p.URI))
	case "resource_link":
		if p.Name == "" {
			return errors.New("a link needs a name")
		}
		return errors.Join(only(false, false, true, true, true), checkURI(p.URI))
	}
	return fmt.Errorf("type %.20q is not one of text, image, resource and resource_link", p.Type)
}

var uri = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[^\s[:cntrl:]]+$`)

func checkURI(s string) error {
	if len(s) > 2000 || !uri.MatchString(s) {
		return fmt.Errorf("uri %.80q is not one", s)
	}
	return nil
}

// checkImage requires one of the types that models read, and bytes of that type.
func checkImage(mimeType string, data []byte) error {
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return fmt.Errorf("mimeType %.80q is not one of image/png, image/jpeg, image/gif and image/webp", mimeType)
	}
	if is := http.DetectContentType(data); is != mimeType {
		return fmt.Errorf("its data are not %s but look like %s", mimeType, is)
	}
	return nil
}
