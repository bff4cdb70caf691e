package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sourcegraph/conc/iter"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/permission"
)

// join asks each server of the bus by itself: one that is away is not seen where a
// client takes another. The first that answers is the one that other checks ask.
func (e *examination) join(ctx context.Context) []Finding {
	var servers []string // names of one address, as in a small fleet, are one server
	for server := range strings.SplitSeq(e.Bus.NATS, ",") {
		if server = strings.TrimSpace(server); !slices.Contains(servers, server) {
			servers = append(servers, server)
		}
	}
	var mu sync.Mutex
	found := iter.Map(servers, func(server *string) Finding {
		ctx, cancel := context.WithTimeout(ctx, e.Wait)
		defer cancel()
		flags := e.Bus
		flags.NATS = *server
		conn, err := flags.ConnectNow(ctx, permission.Operator, "doctor")
		if err != nil {
			return Finding{"bus", Wrong, err.Error(), "programs use another server, where there is one; without any, every call is refused", "start that NATS server, and look at its log; \"busbar nats-config\" makes its users and certificates"}
		}
		f, keep := e.server(ctx, conn)
		mu.Lock()
		defer mu.Unlock()
		if keep = keep && e.conn == nil; keep {
			e.conn = conn
		} else {
			conn.Close()
		}
		return f
	})
	return found
}

// server says who a NATS server is, and whether it answers.
func (e *examination) server(ctx context.Context, conn *bus.Conn) (Finding, bool) {
	p, err := conn.Peer(ctx)
	if err != nil {
		return Finding{"bus", Wrong, fmt.Sprintf("%s: %v", conn.URL(), err), "programs that are connected to it hang until they notice", "restart that NATS server"}, false
	}
	f := Finding{Check: "bus", State: OK, What: fmt.Sprintf("%s: NATS %s, %s, answers in %v", conn.URL(), p.Version, alone(p.Cluster), p.Took.Round(10*time.Microsecond))}
	if p.Certificate != nil {
		if f, bad := expiry("bus", conn.URL(), p.Certificate, "no program can join the bus there", "busbar nats-config --tls HOST,… --dir DIR, and have the server load the files (nats-server --signal reload)"); bad {
			return f, true
		}
	}
	return f, true
}

func alone(cluster string) string {
	if cluster == "" {
		return "alone"
	}
	return "of cluster " + cluster
}

// permissions compares what NATS lets this user do with what this release needs.
func (e *examination) permissions(ctx context.Context) ([]Finding, error) {
	const reload = "busbar nats-config --dir DIR --services … > nats-users.conf, and have the NATS servers load it (nats-server --signal reload)"
	short, cancel := context.WithTimeout(ctx, e.Wait/2) // NATS does not answer users without permission
	defer cancel()
	has, err := e.conn.Allowed(short)
	if err != nil {
		return []Finding{{State: Warn, What: err.Error(), Follows: "users may lack what this release needs", Mend: reload}}, nil
	}
	if len(has.Publish)+len(has.Subscribe) == 0 {
		return []Finding{{State: Warn, What: "this user may do everything: the bus checks nobody", Follows: "who reaches the NATS servers can call, read and change everything", Mend: "give each program a user of its own: busbar nats-config"}}, nil
	}
	want := permission.OfOperators()
	missing := append(without(want.Publish, has.Publish), without(want.Subscribe, has.Subscribe)...)
	if len(missing) > 0 {
		return []Finding{{State: Wrong, What: "the operator may not use " + strings.Join(missing, ", "), Follows: "the NATS servers have the users of another release; services and edges may lack something too", Mend: reload}}, nil
	}
	if more := append(without(has.Publish, want.Publish), without(has.Subscribe, want.Subscribe)...); len(more) > 0 {
		return []Finding{{State: Warn, What: "the operator may use " + strings.Join(more, ", ") + ", which it does not need", Follows: "who takes its secret can do more than has to be", Mend: reload}}, nil
	}
	return []Finding{{State: OK, What: "the operator may do what it has to, and nothing else; what other users may do is not seen from here: a program that lacks something says so in its log"}}, nil
}

// without are the entries of one list that another one lacks.
func without(all, known []string) (left []string) {
	for _, one := range all {
		if !slices.Contains(known, one) {
			left = append(left, one)
		}
	}
	return left
}
