package argument

import (
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/busbar-mcp/busbar/services/github/internal/limit"
)

// Choices are types of arguments with fixed values.
type (
	State           string
	Direction       string
	RepositorySort  string
	IssueSort       string
	IssueSearchSort string
	PullSort        string
)

var choices = map[reflect.Type][]string{
	reflect.TypeFor[State]():           {"open", "closed", "all"},
	reflect.TypeFor[Direction]():       {"asc", "desc"},
	reflect.TypeFor[RepositorySort]():  {"stars", "forks", "help-wanted-issues", "updated"},
	reflect.TypeFor[IssueSort]():       {"created", "updated", "comments"},
	reflect.TypeFor[IssueSearchSort](): {"comments", "reactions", "interactions", "created", "updated"},
	reflect.TypeFor[PullSort]():        {"created", "updated", "popularity", "long-running"},
}

// Check implements checker for each of the choices.
func (v State) Check() error           { return choice(v) }
func (v Direction) Check() error       { return choice(v) }
func (v RepositorySort) Check() error  { return choice(v) }
func (v IssueSort) Check() error       { return choice(v) }
func (v IssueSearchSort) Check() error { return choice(v) }
func (v PullSort) Check() error        { return choice(v) }

// choice accepts the empty value, too: then GitHub's default applies.
func choice[V ~string](v V) error {
	allowed := choices[reflect.TypeFor[V]()]
	if v == "" {
		return nil
	}
	for _, a := range allowed {
		if string(v) == a {
			return nil
		}
	}
	return notOneOf(allowed)
}

type notOneOf []string

func (n notOneOf) Error() string {
	out := "one of"
	for i, v := range n {
		if i > 0 {
			out += ","
		}
		out += " " + v
	}
	return out
}

// Schema returns the input schema of a tool with arguments In.
func Schema[In any]() ([]byte, error) {
	s, err := jsonschema.For[In](&jsonschema.ForOptions{TypeSchemas: types()})
	if err != nil {
		return nil, err
	}
	// Inference allows null for slices; this schema does not: a list is given or omitted.
	for _, p := range s.Properties {
		if p.Items != nil {
			p.Type, p.Types, p.MaxItems = "array", nil, new(limit.Labels)
		}
	}
	return json.Marshal(s)
}

func types() map[reflect.Type]*jsonschema.Schema {
	all := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Owner]():   {Type: "string", Pattern: ownerPattern, MinLength: new(1), MaxLength: new(limit.Owner)},
		reflect.TypeFor[Repo]():    {Type: "string", Pattern: repoPattern, MinLength: new(1), MaxLength: new(limit.Repo)},
		reflect.TypeFor[Path]():    {Type: "string", MaxLength: new(limit.Path)},
		reflect.TypeFor[Ref]():     {Type: "string", MaxLength: new(limit.Ref)},
		reflect.TypeFor[Head]():    {Type: "string", MaxLength: new(limit.Owner + 1 + limit.Ref)},
		reflect.TypeFor[Query]():   {Type: "string", MinLength: new(1), MaxLength: new(limit.Query)},
		reflect.TypeFor[Name]():    {Type: "string", MaxLength: new(limit.Name)},
		reflect.TypeFor[Label]():   {Type: "string", MinLength: new(1), MaxLength: new(limit.Name)},
		reflect.TypeFor[Time]():    {Type: "string", Format: "date-time"},
		reflect.TypeFor[Number]():  {Type: "integer", Minimum: new(1.0), Maximum: new(float64(1<<31 - 1))},
		reflect.TypeFor[Page]():    {Type: "integer", Minimum: new(1.0), Maximum: new(float64(limit.Page)), Default: number(1)},
		reflect.TypeFor[PerPage](): {Type: "integer", Minimum: new(1.0), Maximum: new(float64(limit.PerPage)), Default: number(limit.DefaultPerPage)},
		reflect.TypeFor[Bytes]():   {Type: "integer", Minimum: new(1.0), Maximum: new(float64(limit.MaxContent)), Default: number(limit.DefaultContent)},
		reflect.TypeFor[LineNo]():  {Type: "integer", Minimum: new(1.0), Default: number(1)},
	}
	for t, values := range choices {
		s := &jsonschema.Schema{Type: "string"}
		for _, v := range values {
			s.Enum = append(s.Enum, v)
		}
		all[t] = s
	}
	return all
}

func number(n int) json.RawMessage { return json.RawMessage(strconv.Itoa(n)) }
