package edge

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/services/edge/audit"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
	"github.com/busbar-mcp/busbar/services/edge/identity"
	"github.com/busbar-mcp/busbar/services/edge/store"
)

// Methods in the audit trail for an operator's work on API keys.
const (
	auditKeyCreate = "busbar/key.create"
	auditKeyRevoke = "busbar/key.revoke"
)

// keyTime bounds an operation on a key.
const keyTime = 10 * time.Second

// join joins the bus as an operator until leave is called. The returned context bounds
// the operator's work.
func (f busFlags) join(ctx context.Context) (conn *bus.Conn, _ context.Context, leave func(), err error) {
	if conn, err = f.connect(ctx); err != nil {
		return nil, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	return conn, ctx, func() { cancel(); conn.Close() }, nil
}

// CreateKey is the command line that makes an API key. The tags are read by kong.
type CreateKey struct {
	busFlags
	Name      string `arg:"" help:"What you call it, to find it again."`
	Principal string `required:"" placeholder:"NAME" help:"Who calls with it, as in the access file."`
	Expires   string `placeholder:"TIME" help:"How long it is good: 90d, 12h. Without it, until it is revoked."`
}

// Help implements kong's HelpProvider.
func (CreateKey) Help() string {
	return `Example: busbar key create laptop --principal anna --expires 90d

The key is printed once and kept nowhere: clients send it as
"Authorization: Bearer bb_…". The audit trail records it.

On a bus with users, name its server and the operator's secret:
--nats tls://nats.example:4222 --nats-nkey operator.secret, which "busbar
nats-config" makes. On the machine of "busbar dev", neither is needed.`
}

// Validate implements kong's interface.
func (c *CreateKey) Validate() error {
	if err := identity.CheckName(c.Name); err != nil {
		return fmt.Errorf("the name of a key: %w", err)
	}
	if err := identity.CheckName(c.Principal); err != nil {
		return fmt.Errorf("--principal: %w", err)
	}
	if c.Principal == "operator" || c.Principal == gateway.Anonymous.Name || c.Principal == "-" {
		return fmt.Errorf("--principal: %s is not a name for somebody: the audit trail calls others so", c.Principal)
	}
	if _, err := c.expires(); err != nil {
		return fmt.Errorf("--expires: %w", err)
	}
	return nil
}

// expires is when the key ends; zero if never.
func (c *CreateKey) expires() (time.Time, error) {
	if c.Expires == "" {
		return time.Time{}, nil
	}
	life, err := parseLife(c.Expires)
	return time.Now().Add(life).UTC().Truncate(time.Second), err
}

// Run makes the key, and prints it.
func (c *CreateKey) Run(ctx context.Context, out io.Writer) error {
	expires, err := c.expires()
	if err != nil {
		return err
	}
	conn, ctx, leave, err := c.join(ctx)
	if err != nil {
		return err
	}
	defer leave()
	var key string
	err = audit.Operation(ctx, conn, auditKeyCreate, c.Name+" of "+c.Principal, "", func() (err error) {
		key, err = store.NewAPIKeys(conn).Create(ctx, c.Name, c.Principal, expires)
		return err
	})
	if key == "" {
		return fmt.Errorf("create key %s: %w", c.Name, err)
	}
	// The key that was made is printed whatever fails otherwise: nobody can ask for it
	// again.
	if _, printed := fmt.Fprintln(out, key); printed != nil {
		return printed
	}
	return err
}

// parseLife reads a time such as 90d or 12h.
func parseLife(s string) (time.Duration, error) {
	life, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		life = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || life <= 0 || life > 100*365*24*time.Hour {
		return 0, fmt.Errorf("%q is not a duration such as 90d or 12h", s)
	}
	return life, nil
}

// ListKeys is the command line that lists API keys.
type ListKeys struct {
	busFlags
	JSON bool `name:"json" env:"BUSBAR_JSON" help:"Print JSON."`
}

// Help implements kong's HelpProvider.
func (ListKeys) Help() string { return `Example: busbar key ls` }

type keyLine struct {
	Key       string    `json:"key"`
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Created   time.Time `json:"created"`
	Expires   time.Time `json:"expires,omitzero"`
	Used      time.Time `json:"used,omitzero"`
}

// Run prints the list to out.
func (c *ListKeys) Run(ctx context.Context, out io.Writer) error {
	conn, ctx, leave, err := c.join(ctx)
	if err != nil {
		return err
	}
	defer leave()
	keys := store.NewAPIKeys(conn)
	all, err := keys.All(ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	used, err := keys.LastUsed(ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	lines := []keyLine{}
	for _, k := range all {
		lines = append(lines, keyLine{"bb_" + k.ID, k.Name, k.Principal, k.Created, k.Expires, used[k.ID]})
	}
	if c.JSON {
		return json.MarshalWrite(out, lines, jsontext.Multiline(true))
	}
	if len(lines) == 0 {
		_, err := fmt.Fprintln(out, "no keys")
		return err
	}
	day := func(t time.Time, none string) string {
		if t.IsZero() {
			return none
		}
		return t.Local().Format("2006-01-02 15:04")
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "KEY\tNAME\tPRINCIPAL\tCREATED\tEXPIRES\tLAST USED")
	for _, k := range lines {
		_, _ = fmt.Fprintf(table, "%s…\t%s\t%s\t%s\t%s\t%s\n", k.Key, k.Name, k.Principal, day(k.Created, ""), day(k.Expires, "never"), day(k.Used, "never"))
	}
	return table.Flush()
}

// RevokeKey is the command line that ends an API key.
type RevokeKey struct {
	busFlags
	Name string `arg:"" help:"Its name, or the part of it that ls shows."`
}

// Help implements kong's HelpProvider.
func (RevokeKey) Help() string {
	return `Example: busbar key revoke laptop

Within a second no edge takes it, and streams that were opened with it end.`
}

// Run ends the key, and says so.
func (c *RevokeKey) Run(ctx context.Context, out io.Writer) error {
	conn, ctx, leave, err := c.join(ctx)
	if err != nil {
		return err
	}
	defer leave()
	keys := store.NewAPIKeys(conn)
	all, err := keys.All(ctx)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	for _, k := range all {
		shown := "bb_" + k.ID
		if c.Name != k.Name && c.Name != shown && !strings.HasPrefix(c.Name, shown+"_") {
			continue
		}
		err := audit.Operation(ctx, conn, auditKeyRevoke, k.Name+" of "+k.Principal, "", func() error { return keys.Revoke(ctx, k.ID) })
		if err != nil {
			return fmt.Errorf("revoke key %s: %w", shown, err)
		}
		_, err = fmt.Fprintf(out, "key %s (%s, of %s) is good no more\n", shown, k.Name, k.Principal)
		return err
	}
	return fmt.Errorf("there is no such key; \"busbar key ls\" lists them")
}
