// Package template defines prompt templates: the parts of a definition, the small language of its texts,
// and rendering to messages. The language has conditions and loops, and can reach nothing but the
// arguments. Start at Definition and Compile.
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
	// MaxDefinition is the largest size of a definition as JSON, in bytes.
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
	// Language is the language of Messages, a BCP 47 tag; empty means "en".
	Language  string     `json:"language,omitzero"`
	Arguments []Argument `json:"arguments,omitempty"`
	Messages  []Message  `json:"messages"`
	// Variants are the messages in other languages. A template with variants has the
	// argument LanguageArgument.
	Variants map[string]Variant `json:"variants,omitempty"`
}

// LanguageArgument chooses among variants; its value is BCP 47 tags, the preferred one first.
const LanguageArgument = "lang"

// Type is the type of an argument's value. On the wire every value is a string.
type Type string

// Types of arguments.
const (
	String  Type = "string"
	Integer Type = "integer" // within ±(2⁵³−1)
	Number  Type = "number"
	Boolean Type = "boolean" // "true" or "false"
	Enum    Type = "enum"    // one of Values
	List    Type = "list"    // one item on each line, or items on one line separated by commas
)

// Argument is an argument of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
	// Type is String if empty.
	Type     Type `json:"type,omitzero"`
	Required bool `json:"required,omitzero"`
	// Default is the value of a missing argument; nil for none.
	Default *string `json:"default,omitzero"`
	// Values lists the values of an enum.
	Values []string `json:"values,omitempty"`
	// Suggestions are offered while a user types; other values are allowed, too.
	Suggestions []string `json:"suggestions,omitempty"`
}

// Message becomes one message for each of its parts: on the wire a message has
// only one.
type Message struct {
	// Role is "user" or "assistant".
	Role    string `json:"role"`
	Content []Part `json:"content"`
}

// Variant holds the messages in another language.
type Variant struct {
	Messages []Message `json:"messages"`
}

// Part is a part of a message.
type Part struct {
	// Type is "text", "image", "resource" or "resource_link".
	Type string `json:"type"`
	// Text is a template for type text. For a resource it is the content,
	// unchanged.
	Text string `json:"text,omitzero"`
	// Data is an image.
	Data     []byte `json:"data,omitzero"`
	MIMEType string `json:"mimeType,omitzero"`
	// URI is the URI of a resource; Name, Title and Description describe a link's target.
	URI         string `json:"uri,omitzero"`
	Name        string `json:"name,omitzero"`
	Title       string `json:"title,omitzero"`
	Description string `json:"description,omitzero"`
}

// FromYAML reads a definition from a file. It refuses unknown names, and YAML that
// different parsers read differently.
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

// FromJSON reads a definition. It refuses unknown members. The definition may still be
// invalid: see Compile.
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

// JSON returns the stored form of the definition; equal definitions have equal bytes.
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
		return fmt.Errorf("it has %d bytes as JSON; the limit is %d", len(raw), MaxDefinition)
	case !name.MatchString(d.Name):
		return fmt.Errorf("name: use 1 to %d characters of a-z, A-Z, 0-9, _, - and dot", maxName)
	case d.Language != "" && !tag.MatchString(d.Language):
		return fmt.Errorf("language: %.20q is not a BCP 47 tag; use one such as en or zh-Hant", d.Language)
	case len(d.Arguments) > maxArguments:
		return fmt.Errorf("arguments: too many; the limit is %d", maxArguments)
	case len(d.Variants) > maxVariants:
		return fmt.Errorf("variants: too many; the limit is %d", maxVariants)
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
		return fmt.Errorf("argument %q exists automatically in a template with variants; remove it", LanguageArgument)
	}
	tags := map[string]bool{strings.ToLower(d.language()): true}
	for t := range d.Variants {
		if !tag.MatchString(t) {
			return fmt.Errorf("variant %.20q: it is not a BCP 47 tag; use one such as pl or zh-Hant", t)
		}
		if tags[strings.ToLower(t)] {
			return fmt.Errorf("variant %q: this language already exists", t)
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
		return fmt.Errorf("title: too long; the limit is %d bytes", maxTitle)
	case len(description) > maxAbout:
		return fmt.Errorf("description: too long; the limit is %d bytes", maxAbout)
	}
	return nil
}

func (a *Argument) check() error {
	if !argument.MatchString(a.Name) || a.Name == "this" {
		return errors.New("its name is not valid; use 1 to 64 characters of a-z, A-Z, 0-9 and _, not beginning with a digit, and not the word this")
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
			return errors.New("values are only for type enum; use suggestions")
		}
	case Enum:
		if len(a.Values) == 0 || len(a.Suggestions) > 0 {
			return errors.New("type enum needs values and must not have suggestions")
		}
	default:
		return fmt.Errorf("type %.20q is not valid; use one of string, integer, number, boolean, enum and list", a.Type)
	}
	for _, list := range [][]string{a.Values, a.Suggestions} {
		if len(list) > maxChoices {
			return fmt.Errorf("there are too many values or suggestions; the limit is %d", maxChoices)
		}
		for i, v := range list {
			if v == "" || len(v) > maxChoice {
				return fmt.Errorf("a value or suggestion must have 1 to %d bytes", maxChoice)
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
		return errors.New("a required argument must not have a default")
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
			return fmt.Errorf("mimeType %.80q is not a valid media type", p.MIMEType)
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
	return fmt.Errorf("type %.20q is not valid; use one of text, image, resource and resource_link", p.Type)
}

var uri = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[^\s[:cntrl:]]+$`)

func checkURI(s string) error {
	if len(s) > 2000 || !uri.MatchString(s) {
		return fmt.Errorf("uri %.80q is not a valid URI", s)
	}
	return nil
}

// checkImage requires one of the types that models read, and bytes of that type.
func checkImage(mimeType string, data []byte) error {
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return fmt.Errorf("mimeType %.80q is not supported; use one of image/png, image/jpeg, image/gif and image/webp", mimeType)
	}
	if is := http.DetectContentType(data); is != mimeType {
		return fmt.Errorf("its data is not %s; it looks like %s", mimeType, is)
	}
	return nil
}
