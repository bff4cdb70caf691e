package doctor

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/conc/iter"

	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/database"
	"github.com/busbar-mcp/busbar/services/audit"
	"github.com/busbar-mcp/busbar/services/busbar/internal/client"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/prompt"
	"github.com/busbar-mcp/busbar/services/resource"
)

// soon is how long before its end a certificate is spoken of.
const soon = 14 * 24 * time.Hour

// maxFile bounds a file of certificates, in bytes.
const maxFile = 1 << 20

// edges asks each edge whether it is ready.
func (e *examination) edges(ctx context.Context) ([]Finding, error) {
	var found []Finding
	for _, one := range iter.Map(e.Edges, func(o *client.Options) []Finding { return e.edge(ctx, *o) }) {
		found = append(found, one...)
	}
	return found, nil
}

func (e *examination) edge(ctx context.Context, o client.Options) (found []Finding) {
	ctx, cancel := context.WithTimeout(ctx, e.Wait*3/4) // so that others are heard where one hangs
	defer cancel()
	r, err := client.AskReady(ctx, o)
	if err != nil {
		return []Finding{{State: Wrong, What: fmt.Sprintf("%s: %v", o.URL, err), Follows: "its clients reach nothing, unless a proxy sends them to another edge", Mend: "start it, or look at its log: busbar edge --log-level info"}}
	}
	name := o.URL
	if r.Version != "" {
		name += ", version " + r.Version
	}
	verdict, lines, _ := strings.Cut(strings.TrimSpace(r.Said), "\n")
	for line := range strings.SplitSeq(lines, "\n") {
		if about, why, is := strings.Cut(line, ": not ready: "); is {
			found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%s: %s: %s", name, about, why), Follows: "a proxy sends it nothing new", Mend: "busbar ready --url " + o.URL + ", which says more"})
		}
	}
	switch {
	case !r.Ready && len(found) == 0:
		found = append(found, Finding{State: Wrong, What: name + ": " + verdict, Follows: "a proxy sends it nothing new", Mend: "busbar ready --url " + o.URL})
	case r.Ready:
		found = append(found, Finding{State: OK, What: name + ": ready"})
	}
	if r.Version != "" && r.Version != e.Version {
		found = append(found, Finding{State: Warn, What: fmt.Sprintf("%s: this program is of version %s", name, e.Version), Follows: "what this program knows of it may not hold", Mend: "finish the rolling change, or use the program of that release"})
	}
	if !r.Clock.IsZero() {
		// The header has whole seconds.
		if ahead := r.Clock.Sub(r.Answered); ahead > registry.MaxClockOffset || ahead < -registry.MaxClockOffset-time.Second-r.Answered.Sub(r.Asked) {
			found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%s: its clock is %s this machine's", name, off(ahead)), Follows: "sessions, approvals and the audit trail have wrong times", Mend: "set the clock of whichever is wrong: timedatectl set-ntp true"})
		}
	}
	if r.Certificate != nil {
		if f, bad := expiry("", name, r.Certificate, "clients refuse to speak to it", "renew it; the edge reads it again by itself"); bad {
			found = append(found, f)
		}
	}
	return found
}

// database asks the database for the versions of its schemas.
func (e *examination) database(ctx context.Context) ([]Finding, error) {
	if e.DatabaseURL == "" {
		return nil, nil
	}
	known := []database.Schema{resource.Schema(), prompt.Schema(), audit.Schema()}
	var owners []string
	for _, s := range known {
		owners = append(owners, s.Owner)
	}
	ctx, cancel := context.WithTimeout(ctx, e.Wait*3/4)
	defer cancel()
	has, err := database.Look(ctx, e.DatabaseURL, owners...)
	if err != nil {
		return []Finding{{State: Wrong, What: err.Error(), Follows: "resources, prompts and the audit trail are away; calls of their tools fail", Mend: "start Postgres, make room on its disk where that is full, or check BUSBAR_DATABASE_URL and the password"}}, nil
	}
	var found []Finding
	for i, s := range has {
		want := known[i].Version
		f := Finding{State: OK, What: fmt.Sprintf("%s: schema version %d", s.Owner, s.Version)}
		switch {
		case s.Version == 0:
			f = Finding{State: Warn, What: s.Owner + ": it has no tables yet", Follows: "it has never run on this database", Mend: "start it: it makes them"}
		case s.Version < want:
			f = Finding{State: Warn, What: fmt.Sprintf("%s: schema version %d, and this release has %d", s.Owner, s.Version, want), Follows: "the service that runs is of an earlier release", Mend: "start an instance of this release: it brings the tables up to date, and the earlier ones go on"}
		case s.Version > want:
			f = Finding{State: Warn, What: fmt.Sprintf("%s: schema version %d, and this release knows %d", s.Owner, s.Version, want), Follows: "instances of this release do not start on it", Mend: "use the release that made it, or a later one"}
		}
		found = append(found, f)
	}
	return found, nil
}

const mendCertificates = "busbar nats-config --tls HOST,… --dir DIR renews the certificates of the bus; renew others where they were issued"

// certificates looks at files.
func (e *examination) certificates(context.Context) (found []Finding, err error) {
	for _, name := range e.Certificates {
		all, err := readCertificates(name)
		if err != nil {
			found = append(found, Finding{State: Wrong, What: err.Error(), Follows: "whoever uses it does not start", Mend: "check --certificates"})
			continue
		}
		first := slices.MinFunc(all, func(a, b *x509.Certificate) int { return a.NotAfter.Compare(b.NotAfter) })
		for _, c := range all {
			f, bad := expiry("", fmt.Sprintf("%s: %s", name, c.Subject), c, "who shows it, or was signed by it, is refused", mendCertificates)
			if bad || c == first {
				found = append(found, f)
			}
		}
	}
	return found, nil
}

func readCertificates(name string) (all []*x509.Certificate, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(io.LimitReader(file, maxFile))
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(raw); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: a certificate in it is damaged: %w", name, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no certificate in PEM", name)
	}
	return all, nil
}

// expiry is a finding about a certificate, and whether it is a bad one.
func expiry(of, name string, c *x509.Certificate, follows, mend string) (f Finding, bad bool) {
	left := time.Until(c.NotAfter)
	until := c.NotAfter.UTC().Format(time.DateOnly)
	switch {
	case left <= 0:
		return Finding{of, Wrong, fmt.Sprintf("%s: the certificate expired on %s", name, until), follows, mend}, true
	case left < soon:
		return Finding{of, Warn, fmt.Sprintf("%s: the certificate expires on %s, in %d days", name, until, int(left.Hours()/24)), "from then on, " + follows, mend}, true
	}
	return Finding{Check: of, State: OK, What: fmt.Sprintf("%s: the certificate is good until %s", name, until)}, false
}

// access looks for what is odd in the policy file.
func (e *examination) access(context.Context) (found []Finding, err error) {
	if e.Access == "" {
		return nil, nil
	}
	problems, err := access.CheckFile(e.Access, nil)
	if err != nil {
		return []Finding{{State: Wrong, What: err.Error(), Follows: "edges do not start with it; those that run go on with the one before", Mend: "check --access"}}, nil
	}
	for _, p := range problems {
		what := e.Access + ": " + p.Text
		if p.Line > 0 {
			what = fmt.Sprintf("%s:%d: %s", e.Access, p.Line, p.Text)
		}
		found = append(found, Finding{State: Warn, What: what, Follows: "callers may get more or fewer rights than intended; edges do not start with a file that is malformed", Mend: "busbar access check " + e.Access})
	}
	if len(found) == 0 {
		found = append(found, Finding{State: OK, What: e.Access + " is in order"})
	}
	return found, nil
}
