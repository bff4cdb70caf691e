package access

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/yamljson"
	"github.com/busbar-mcp/busbar/services/edge/identity/oauth"
	"github.com/busbar-mcp/busbar/services/edge/limit"
)

// MaxFile bounds a policy file, bytes.
//
//limit:policy an access file
const MaxFile = 1 << 20

// File is a policy file as it is written. docs/reference/access.md says what its members mean.
type File struct {
	Tenants         map[string]Tenant    `json:"tenants,omitzero"`
	Roles           map[string]Role      `json:"roles,omitzero"`
	Principals      map[string]Principal `json:"principals,omitzero"`
	Conditions      []Condition          `json:"conditions,omitzero"`
	RequireApproval []string             `json:"require_approval,omitzero"`
	// WaiveApproval are tools whose calls need no approval although the tools ask for it,
	// unless RequireApproval names them too.
	WaiveApproval []string      `json:"waive_approval,omitzero"`
	OAuth         []Issuer      `json:"oauth,omitzero"`
	Certificates  []Certificate `json:"certificates,omitzero"`
	// Anonymous are the roles of callers without credentials.
	Anonymous []string `json:"anonymous,omitzero"`
	// Tools are the limits of tools, by pattern.
	Tools map[string]limit.Limits `json:"tools,omitzero"`
	// Services are the rights of services, by name. The entry * holds for services
	// without an entry of their own. Without any entry, each service may offer what it
	// likes and has no power.
	Services map[string]Service `json:"services,omitzero"`
	// Toolsets are choices of what services offer, by name.
	Toolsets map[string]Toolset `json:"toolsets,omitzero"`
	// Pin is "strict" if tools are offered only in the form that an operator has
	// accepted.
	Pin string `json:"pin,omitzero"`
}

// Tenant is what the file says of all principals of a tenant together.
type Tenant struct {
	Limits limit.Limits `json:"limits,omitzero"`
}

// Role is a set of rights.
type Role struct {
	Allow []string `json:"allow,omitzero"`
	Deny  []string `json:"deny,omitzero"`
	// Limits are the limits of each principal with the role.
	Limits limit.Limits `json:"limits,omitzero"`
	// Approve are the tools for which the role may approve calls of others.
	Approve []string `json:"approve,omitzero"`
	// WaiveApproval has the meaning of File.WaiveApproval, for principals with the role
	// only.
	WaiveApproval []string `json:"waive_approval,omitzero"`
	// Audit is "read" if the role may read the audit trail of its tenant.
	Audit string `json:"audit,omitzero"`
}

// Principal is what the file says of a principal, by name.
type Principal struct {
	Tenant string   `json:"tenant,omitzero"`
	Roles  []string `json:"roles,omitzero"`
}

// Condition has to hold for every call of the targets that fit On.
type Condition struct {
	On string `json:"on"`
	// When is a CEL expression.
	When string `json:"when"`
}

// Issuer is an authorization server whose access tokens are accepted.
type Issuer struct {
	Issuer string `json:"issuer"`
	// Audience is this server, as tokens name it.
	Audience oauth.Strings `json:"audience"`
	// Resource is the URL of the MCP endpoint, if no audience is that URL.
	Resource string `json:"resource,omitzero"`
	// Principal, Tenant and Roles are names of claims.
	Principal string `json:"principal,omitzero"`
	Tenant    string `json:"tenant,omitzero"`
	Roles     string `json:"roles,omitzero"`
	// Scopes maps a token's scopes to the roles that they bring. Ask are the scopes that
	// clients are told to begin with.
	Scopes map[string][]string `json:"scopes,omitzero"`
	Ask    []string            `json:"ask,omitzero"`
	// Algorithms that tokens may be signed with.
	Algorithms []string `json:"algorithms,omitzero"`
	// Typ is "strict", or "lenient" to accept tokens whose type is JWT.
	Typ string `json:"typ,omitzero"`
	// JWKS is where the keys are, if the metadata does not say.
	JWKS string `json:"jwks,omitzero"`
	// DPoP is "required" if every token has to be bound to a key.
	DPoP string `json:"dpop,omitzero"`
	// Introspection says how the issuer is asked about opaque tokens.
	Introspection *Introspection `json:"introspection,omitzero"`
}

// Introspection says how an issuer is asked about opaque tokens. The secret is in a
// file, or in a variable of the environment.
type Introspection struct {
	URL        string `json:"url,omitzero"`
	ClientID   string `json:"client_id"`
	SecretFile string `json:"secret_file,omitzero"`
	SecretEnv  string `json:"secret_env,omitzero"`
}

// Certificate says which principal a client certificate stands for.
type Certificate struct {
	// One of these is a name in the certificate; it may contain a *.
	URI     string `json:"uri,omitzero"`
	DNS     string `json:"dns,omitzero"`
	Subject string `json:"subject,omitzero"`

	Principal string   `json:"principal,omitzero"`
	Tenant    string   `json:"tenant,omitzero"`
	Roles     []string `json:"roles,omitzero"`
	Program   bool     `json:"program,omitzero"`
}

// ParseError lists the errors of a policy file, by line.
type ParseError struct{ Problems []Problem }

// Problem is an error or an oddity of a policy file.
type Problem struct {
	Line int    `json:"line"`
	Text string `json:"text"`
}

func (p Problem) String() string { return fmt.Sprintf("line %d: %s", p.Line, p.Text) }

// Error implements error.
func (e *ParseError) Error() string {
	all := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		all[i] = p.String()
	}
	return strings.Join(all, "\n")
}

// Parse reads a policy file. The error is a *ParseError if it can be told by line.
func Parse(document []byte) (*Policy, error) {
	if len(document) > MaxFile {
		return nil, fmt.Errorf("a policy file has at most %d bytes; this one has %d", MaxFile, len(document))
	}
	object, lines, err := yamljson.ObjectLines(document)
	if err != nil {
		return nil, err
	}
	c := compiler{lines: lines, ended: bytes.HasSuffix(document, []byte("\n"))}
	err = json.Unmarshal(object, &c.file, json.RejectUnknownMembers(true))
	if wrong := (*json.SemanticError)(nil); errors.As(err, &wrong) {
		c.decoding(wrong)
		return nil, &ParseError{c.problems}
	}
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(document)
	p := c.policy(hex.EncodeToString(sum[:]))
	if len(c.problems) > 0 {
		slices.SortStableFunc(c.problems, func(a, b Problem) int { return a.Line - b.Line })
		return nil, &ParseError{c.problems}
	}
	return p, nil
}

// decoding notes a value of the wrong kind, or an unknown key.
func (c *compiler) decoding(e *json.SemanticError) {
	switch {
	case errors.Is(e.Err, json.ErrUnknownName):
		c.at(e.JSONPointer, "unknown key %q", e.JSONPointer.LastToken())
	case e.Err != nil:
		c.at(e.JSONPointer, "%s: %v", name(e.JSONPointer), e.Err)
	default:
		kinds := map[jsontext.Kind]string{'n': "nothing", 't': "true", 'f': "false", '"': "a text", '0': "a number", '{': "names and values", '[': "a list"}
		c.at(e.JSONPointer, "%s cannot be %s", name(e.JSONPointer), kinds[e.JSONKind])
	}
}

// name is the place of a value in the notation of people.
func name(p jsontext.Pointer) string {
	if p == "" {
		return "the file"
	}
	return strings.Join(slices.Collect(p.Tokens()), ".")
}
