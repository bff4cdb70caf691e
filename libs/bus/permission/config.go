package permission

import (
	"fmt"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/bus/secret"
)

// account is the NATS account of edges and operators, and of the buckets and streams.
const account = "busbar"

// accountOf names the account of a service: one for each.
func accountOf(service string) string { return "service-" + service }

// A Who is a user and its public nkeys: two while one replaces the other.
type Who struct {
	User
	NKeys []string
}

// Config returns the part of a NATS configuration with accounts, users and permissions.
//
// Each service has an account of its own, which imports from the edges' account only the subjects
// that its user may publish and subscribe to. Permissions of users in one account are not enough:
// JetStream publishes its answers on the subject that the request names, whatever the user may
// publish, so a user that may write one key could make JetStream write any other. Between accounts
// an answer goes back to the process that asked.
func Config(all ...Who) string {
	var exports, imports, users, accounts []string
	for _, w := range all {
		if w.Name == Edge || w.Name == Operator || w.Name == Developer {
			users = append(users, w.users()...)
			continue
		}
		at := accountOf(w.Name)
		var theirExports, theirImports []string
		for _, subject := range w.Publish {
			switch {
			case strings.HasPrefix(subject, "mcp.ctl.") && strings.HasSuffix(subject, ".changed"): // to its own instances
			case stored(subject):
				exports = append(exports, fmt.Sprintf("{ service: %q, accounts: [%q]%s }", subject, at, responses(subject)))
				theirImports = append(theirImports, fmt.Sprintf("{ service: { account: %q, subject: %q } }", account, subject))
			default:
				theirExports = append(theirExports, fmt.Sprintf("{ stream: %q, accounts: [%q] }", subject, account))
				imports = append(imports, fmt.Sprintf("{ stream: { account: %q, subject: %q } }", at, subject))
			}
		}
		for _, subject := range w.Subscribe {
			if subject, _, _ = strings.Cut(subject, " "); !strings.HasPrefix(subject, "_INBOX.") {
				exports = append(exports, fmt.Sprintf("{ stream: %q, accounts: [%q] }", subject, at))
				theirImports = append(theirImports, fmt.Sprintf("{ stream: { account: %q, subject: %q } }", account, subject))
			}
		}
		accounts = append(accounts, fmt.Sprintf("  %q: {\n%s%s%s  }\n", at, list("users", w.users()), list("exports", theirExports), list("imports", theirImports)))
	}
	return "accounts: {\n" + fmt.Sprintf("  %q: {\n    jetstream: enabled\n%s%s%s  }\n", account, list("users", users), list("exports", exports), list("imports", imports)) +
		strings.Join(accounts, "") + "}\n"
}

// stored reports whether JetStream takes the messages on a subject, and answers.
func stored(subject string) bool {
	return slices.ContainsFunc([]string{"$KV.", "$JS.", "mcp.evt.", "mcp.dlq."}, func(root string) bool { return strings.HasPrefix(subject, root) })
}

// responses returns the setting for subjects on which more than one message may answer.
func responses(subject string) string {
	if strings.Contains(subject, ".MSG.NEXT.") || strings.HasPrefix(subject, "$JS.API.DIRECT.GET.") && !strings.Contains(subject, ".$KV.") {
		return ", response_type: stream"
	}
	return ""
}

func (w Who) users() (all []string) {
	for _, key := range w.NKeys {
		all = append(all, fmt.Sprintf("{ nkey: %s, permissions: { publish: [%s], subscribe: [%s] } }", key, quoted(w.Publish), quoted(w.Subscribe)))
	}
	return all
}

func quoted(all []string) string {
	q := make([]string, len(all))
	for i, s := range all {
		q[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(q, ", ")
}

func list(name string, all []string) string {
	if len(all) == 0 {
		return ""
	}
	return "    " + name + ": [\n      " + strings.Join(all, "\n      ") + "\n    ]\n"
}

// Issue creates the missing secrets of every service, the edges and the operators in a directory,
// and returns the NATS configuration with all of them. The users in renew get new secrets: see
// secret.Dir.
func Issue(dir secret.Dir, services []User, renew ...string) (config string, err error) {
	var names []string
	for _, u := range services {
		names = append(names, u.Name)
	}
	if err := dir.Issue(names, renew...); err != nil {
		return "", err
	}
	var all []Who
	for _, u := range append([]User{OfEdges(), OfOperators()}, services...) {
		keys, err := dir.NKeys(u.Name)
		if err != nil {
			return "", err
		}
		all = append(all, Who{u, keys})
	}
	return Config(all...), nil
}
