package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/schema"
)

// plainTool is a tool in a form that published clients accept. They read a list as a whole, so
// one entry that they reject would hide all tools of all services.
type plainTool struct {
	entry []byte
	// output is nil for a tool that does not declare its result.
	output *schema.Schema
	// mended are the places, in the entry, where a schema was true or false.
	mended []string
}

// acceptable mends a tool's entry if that does not change its meaning. An entry that cannot be
// mended is an error, which leaves out this tool alone.
func acceptable(t *busv1.Tool, known, used compiled) (p plainTool, err error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(t.Json, &members); err != nil || members == nil {
		return p, fmt.Errorf("its entry is not a JSON object: %v", err)
	}
	for name, kind := range map[string]jsontext.Kind{
		"inputSchema": '{', "outputSchema": '{', "title": '"', "description": '"', "annotations": '{', "icons": '[', "_meta": '{', "execution": '{',
	} {
		if v := members[name]; v != nil && v.Kind() != kind {
			return p, fmt.Errorf("%s of its entry is %.20s", name, v)
		}
	}
	p.entry = t.Json
	for _, name := range []string{"inputSchema", "outputSchema"} {
		raw := members[name]
		if raw == nil {
			continue
		}
		mended, changed, err := schema.Plain(raw)
		if err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
		for _, at := range changed {
			p.mended = append(p.mended, "/"+name+at)
		}
		members[name] = mended
	}
	if len(p.mended) > 0 {
		if p.entry, err = json.Marshal(members, json.Deterministic(true)); err != nil {
			return p, err
		}
	}
	shown := members["inputSchema"]
	if shown == nil {
		return p, errors.New("its entry has no inputSchema")
	}
	if !bytes.Equal(shown, t.InputSchema) {
		if _, err := cached(shown, schema.CompileInput, known, used); err != nil {
			return p, fmt.Errorf("input schema of its entry: %w", err)
		}
	}
	if raw := members["outputSchema"]; raw != nil {
		if p.output, err = cached(raw, compileOutput, known, used); err != nil {
			return p, fmt.Errorf("output schema: %w", err)
		}
	}
	return p, nil
}

// cached compiles a schema, unless the build before has done that.
func cached(raw []byte, compile func([]byte) (*schema.Schema, error), known, used compiled) (*schema.Schema, error) {
	text := string(raw)
	s := known[text]
	if s == nil {
		var err error
		if s, err = compile(raw); err != nil {
			return nil, err
		}
	}
	used[text] = s
	return s, nil
}

// foreign matches constructs that only Go's regular expressions have. JavaScript, and so JSON
// Schema, lacks them: flags in the middle, and anchors and classes of Perl and POSIX.
var foreign = regexp.MustCompile(`\(\?[^:=!<]|\(\?P<|\\[AzQEaC]|\[\[:|\\[pP][^{]`)

// compileOutput compiles output schemas. Clients compile them too, in JavaScript.
func compileOutput(raw []byte) (*schema.Schema, error) {
	s, err := schema.Compile(raw)
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(raw, []byte("pattern")) && !bytes.Contains(raw, []byte(`\`)) {
		return s, nil // no such keyword, escaped or not: looking at each token takes longer than all other checks
	}
	dec := jsontext.NewDecoder(bytes.NewReader(raw))
	for {
		token, err := dec.ReadToken()
		if err != nil {
			return s, nil // at the end: it is JSON
		}
		if at := dec.StackPointer().LastToken(); at == "pattern" && token.Kind() == '"' && token.String() != "pattern" && foreign.MatchString(token.String()) {
			return nil, fmt.Errorf("%s: %q is not a regular expression of ECMA-262", dec.StackPointer(), token.String())
		}
	}
}
