package access

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cel.dev/cel-go/cel"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// Bounds of conditions.
const (
	//limit:policy a condition (`when`)
	maxWhen = 4 << 10
	// maxCost bounds what one condition computes for a call, in units of CEL: some
	// milliseconds.
	//limit:call cost of evaluating a condition of the access file, in units of CEL | `forbidden`
	maxCost = 100_000
)

// condition is a condition of the file, compiled.
type condition struct {
	// line is its line in the file.
	line int
	when string
	// program is the compiled expression; it may be run concurrently.
	program cel.Program
}

// facts are the variables of a condition. They are single names with dots, so that
// a misspelt one is found when the file is read.
var facts = sync.OnceValues(func() (*cel.Env, error) {
	texts := cel.ListType(cel.StringType)
	return cel.NewEnv(
		cel.Variable("args", cel.DynType),
		cel.Variable("name", cel.StringType),
		cel.Variable("door", cel.StringType),
		cel.Variable("toolset", cel.StringType),
		cel.Variable("now", cel.TimestampType),
		cel.Variable("principal.name", cel.StringType),
		cel.Variable("principal.tenant", cel.StringType),
		cel.Variable("principal.roles", texts),
		cel.Variable("principal.scopes", texts),
		cel.Variable("principal.program", cel.BoolType),
		cel.Variable("target.service", cel.StringType),
		cel.Variable("target.readOnly", cel.BoolType),
		cel.Variable("target.requiresApproval", cel.BoolType),
	)
})

func (c *compiler) conditions(all []Condition) (map[string][]*condition, *index) {
	made := map[string][]*condition{}
	var on []pattern
	for i, one := range all {
		at := place("conditions", strconv.Itoa(i))
		p, err := parsePattern(one.On)
		if err != nil {
			c.at(at.AppendToken("on"), "%v", err)
			continue
		}
		program, err := compile(one.When)
		if err != nil {
			c.at(at.AppendToken("when"), "%v", err)
		}
		if made[p.text] == nil {
			on = append(on, p)
		}
		made[p.text] = append(made[p.text], &condition{line: c.lines.Of(at.AppendToken("when")), when: one.When, program: program})
	}
	return made, newIndex(on)
}

// conditionsOn are the conditions on a target.
func (p *Policy) conditionsOn(t *Target) (all []*condition) {
	add := func(on *pattern) {
		for _, c := range p.conditions[on.text] {
			if !slices.Contains(all, c) {
				all = append(all, c)
			}
		}
	}
	for on := range p.on.fitting(t.Kind, t.Name) {
		add(on)
	}
	for _, one := range t.readings {
		for on := range p.on.fitting(t.Kind, one) {
			add(on)
		}
	}
	return all
}

// factNames are the names of variables, sorted.
func factNames(env *cel.Env) (all []string) {
	for _, v := range env.Variables() {
		// Types are variables to CEL, too.
		if v.Type().Kind() != cel.TypeKind {
			all = append(all, v.Name())
		}
	}
	slices.Sort(all)
	return all
}

func compile(when string) (cel.Program, error) {
	if when == "" || len(when) > maxWhen {
		return nil, fmt.Errorf("when is an expression of 1 to %d bytes", maxWhen)
	}
	env, err := facts()
	if err != nil {
		return nil, err
	}
	ast, issues := env.Compile(when)
	if err := issues.Err(); err != nil {
		if strings.Contains(err.Error(), "undeclared reference") {
			err = fmt.Errorf("%w\nthere are %s", err, strings.Join(factNames(env), ", "))
		}
		return nil, err
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("when is true or false; this is %s", t)
	}
	return env.Program(ast, cel.CostLimit(maxCost), cel.EvalOptions(cel.OptOptimize))
}

// holds evaluates the condition for a call. For a URI it does so twice: as the URI is
// written, and as its service may read it. An error counts as false.
func (c *condition) holds(of *call, t *Target) (bool, error) {
	of.name = of.view.Name
	yes, err := c.ask(of)
	if of.name != t.Name {
		return yes, err
	}
	for i := 0; yes && err == nil && i < len(t.readings); i++ {
		of.name = t.readings[i]
		yes, err = c.ask(of)
	}
	return yes, err
}

func (c *condition) ask(of *call) (bool, error) {
	out, _, err := c.program.Eval(of)
	if err != nil {
		return false, err
	}
	yes, ok := out.Value().(bool)
	if !ok {
		return false, errors.New("it is neither true nor false")
	}
	return yes, nil
}

// call is what conditions are evaluated on: a cel.Activation.
type call struct {
	policy *Policy
	view   *gateway.View
	// name is the view's name, or another reading of it.
	name  string
	roles []*role
	now   time.Time
	// args are the parsed arguments, once a condition has used them.
	args any
	err  error
	read bool
}

// Parent implements cel.Activation.
func (c *call) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (c *call) ResolveName(name string) (any, bool) {
	v := c.view
	switch name {
	case "args":
		args, err := c.arguments()
		return args, err == nil
	case "name":
		return c.name, true
	case "door":
		return v.Door, true
	case "toolset":
		return v.Credentials.Toolset, true
	case "now":
		return c.now, true
	case "principal.name":
		return v.Principal.Name, true
	case "principal.tenant":
		return v.Principal.Tenant, true
	case "principal.roles":
		names := make([]string, len(c.roles))
		for i, r := range c.roles {
			names[i] = r.name
		}
		return names, true
	case "principal.scopes":
		return append([]string{}, v.Principal.Scopes...), true
	case "principal.program":
		return v.Principal.Program, true
	case "target.service":
		return v.Target.Service, true
	case "target.readOnly":
		return v.Target.Tool != nil && v.Target.Tool.ReadOnly, true
	case "target.requiresApproval":
		return c.policy.demand(c.roles, v.Name, v.Target.Tool != nil && v.Target.Tool.RequiresUserApproval).Needed, true
	}
	return nil, false
}

// arguments are the arguments of the call, parsed once.
func (c *call) arguments() (any, error) {
	if !c.read {
		c.read = true
		c.args, c.err = readArguments(c.view.Arguments)
	}
	return c.args, c.err
}

// readArguments parses JSON into the types of CEL.
func readArguments(raw []byte) (any, error) {
	if len(raw) == 0 {
		return map[string]any{}, nil
	}
	var args any
	err := json.Unmarshal(raw, &args, numbers)
	return args, err
}

// numbers makes whole numbers integers if they fit, so that none is rounded before it is
// compared. It is made once, because it caches facts about types.
var numbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	number, err := d.ReadValue()
	if err != nil {
		return err
	}
	if n, err := strconv.ParseInt(string(number), 10, 64); err == nil {
		*v = n
		return nil
	}
	f, err := strconv.ParseFloat(string(number), 64)
	*v = f
	return err
}))
