package doctor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/conc/pool"

	"github.com/busbar-mcp/busbar/libs/bus/auditlog"
	"github.com/busbar-mcp/busbar/libs/bus/registry"
	"github.com/busbar-mcp/busbar/libs/bus/storage"
	"github.com/busbar-mcp/busbar/libs/bus/task"
	"github.com/busbar-mcp/busbar/services/edge/access"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// behind is how many messages a reader may be behind before that is said.
const behind = 1000

// storage looks at every bucket and stream, and at who reads them.
func (e *examination) storage(ctx context.Context) ([]Finding, error) {
	all := storage.Check(ctx, e.conn, e.Replicas)
	instances, err := e.present(ctx)
	if err != nil {
		instances = nil // what services says, too
	}
	there := map[string]bool{}
	for _, in := range instances {
		there[in.Service] = true
	}
	found := stores(all)
	for _, s := range all {
		if s.Name == "stream "+auditlog.Stream.Name && s.Replicas > 0 {
			found = append(found, readers(s, err != nil || there[gateway.AuditService])...)
		}
		if s.Name == "stream "+auditlog.DeadStream.Name && s.Messages > 0 {
			found = append(found, Finding{State: Warn, What: fmt.Sprintf("%s: %d events could not be written to the audit trail", s.Name, s.Messages), Follows: "the trail lacks them, and after 30 days they are gone", Mend: "busbar audit redeliver, on the machine of an edge; it says why those that stay cannot be written"})
		}
		if s.Name == "stream "+task.Stream.Name {
			for _, c := range s.Consumers {
				if c.Pending > 0 && !there[c.Name] && err == nil {
					found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%d tasks wait for service %s, of which no instance is there", c.Pending, c.Name), Follows: "their clients wait until the tasks expire", Mend: "busbar " + c.Name})
				}
			}
		}
	}
	if len(found) == 0 {
		found = append(found, Finding{State: OK, What: fmt.Sprintf("%d buckets and streams are there, each on %d server(s), as this release wants them", len(all), all[0].Replicas)})
	}
	return found, nil
}

// stores says what is wrong with which; what is the same of many, as when a server is
// away, is one finding.
func stores(all []storage.State) (found []Finding) {
	type kind struct{ follows, mend string }
	names, what := map[kind][]string{}, map[kind]string{}
	var order []kind
	for _, s := range all {
		for _, p := range s.Problems {
			k := kind{p.Follows, p.Mend}
			if names[k] == nil {
				order = append(order, k)
				what[k] = p.What
			}
			names[k] = append(names[k], s.Name)
		}
	}
	for _, k := range order {
		found = append(found, Finding{State: Wrong, What: strings.Join(names[k], ", ") + ": " + what[k], Follows: k.follows, Mend: k.mend})
	}
	return found
}

// readers says who reads the trail, and whether they keep up.
func readers(s storage.State, there bool) (found []Finding) {
	const start = "busbar audit serve"
	if len(s.Consumers) == 0 {
		found = append(found, Finding{State: Wrong, What: s.Name + ": it has no consumer", Follows: "what it holds is never written down", Mend: "busbar bus apply --nats-nkey edge.secret"})
	}
	for _, c := range s.Consumers {
		waiting := c.Pending + uint64(c.Unacknowledged)
		room := fmt.Sprintf("%d events wait, %d of %d MiB are used", waiting, s.Bytes>>20, s.Limit>>20)
		switch {
		case !there:
			found = append(found, Finding{State: Wrong, What: "no audit service is there; " + room, Follows: "full, the stream takes no more, and calls with effects are refused", Mend: start})
		case waiting > behind:
			found = append(found, Finding{State: Warn, What: "the audit service is behind: " + room, Follows: "the trail lacks what was done last; full, the stream takes no more", Mend: "look at its database and its log; start another instance: " + start})
		}
	}
	return found
}

// present are the instances that the registry has, and those that say themselves that they
// run: one that is full keeps no new ones, and edges call them all the same.
func (e *examination) present(ctx context.Context) ([]registry.Instance, error) {
	all, err := registry.List(ctx, e.conn)
	if err != nil {
		return nil, fmt.Errorf("the registry cannot be read: %w", err)
	}
	readings, err := e.conn.Survey(ctx, min(e.Wait/4, time.Second))
	if err != nil {
		return all, nil
	}
	kept := map[[2]string]bool{}
	for _, in := range all {
		kept[[2]string{in.Service, in.Instance}] = true
	}
	var others []registry.Instance
	for _, r := range readings[:min(len(readings), registry.MaxInstances)] {
		if !kept[[2]string{r.Service, r.Instance}] {
			others = append(others, registry.Instance{Service: r.Service, Instance: r.Instance, Version: r.Version})
		}
	}
	// Anybody may answer a survey in anybody's name, but not this question.
	for i, word := range e.ask(ctx, others) {
		if word.answers {
			all = append(all, others[i])
		}
	}
	return all, nil
}

// crowds takes out the services with more instances than edges keep, and all of them if there
// are more than edges keep, and says so: one by one, they are of no interest.
func crowds(all []registry.Instance) (rest []registry.Instance, found []Finding) {
	count := map[string]int{}
	for _, in := range all {
		count[in.Service]++
	}
	names := slices.Sorted(maps.Keys(count))
	if n := len(names); n > registry.MaxServices {
		some := strings.Join(names[:3], ", ")
		return nil, []Finding{{State: Wrong, What: fmt.Sprintf("the registry has %d services, among them %s, and an edge keeps %d", n, some, registry.MaxServices), Follows: "edges ignore the others, and no service was looked at here", Mend: "stop what announces them; with the users that busbar nats-config makes, a program announces its own service alone"}}
	}
	for _, service := range names {
		if n := count[service]; n > registry.MaxInstances {
			found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%s: the registry has %d instances, and an edge keeps %d", service, n, registry.MaxInstances), Follows: "edges ignore the others", Mend: fmt.Sprintf("stop what announces them; if it is not the service, give the service another secret: busbar nats-config --renew %s", service)})
		}
	}
	return slices.DeleteFunc(all, func(in registry.Instance) bool { return count[in.Service] > registry.MaxInstances }), found
}

// services says who is there, and in which versions.
func (e *examination) services(ctx context.Context) ([]Finding, error) {
	all, err := e.present(ctx)
	if err != nil {
		return nil, err
	}
	all, found := crowds(all)
	if len(all)+len(found) == 0 {
		return []Finding{{State: Wrong, What: "no service is there", Follows: "clients see no tools", Mend: "start the services, or look why they do not reach the bus: busbar text --log-level info"}}, nil
	}
	said := e.ask(ctx, all)
	versions := map[string]map[string]int{}
	for _, in := range all {
		if versions[in.Service] == nil {
			versions[in.Service] = map[string]int{}
		}
		versions[in.Service][in.Version]++
	}
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		var parts []string
		for _, v := range slices.Sorted(maps.Keys(versions[name])) {
			parts = append(parts, fmt.Sprintf("%d of version %s", versions[name][v], v))
		}
		f := Finding{State: OK, What: name + ": " + strings.Join(parts, ", ")}
		if len(parts) > 1 {
			f.State, f.Follows, f.Mend = Warn, "calls go to either; tools that only one of them has are called there alone", "finish the rolling change: stop the instances of the older version once the new ones are there"
		}
		found = append(found, f)
	}
	return append(append(found, e.silent(ctx, all, said)...), unready(all, said)...), nil
}

// word is what an instance says of itself.
type word struct {
	notReady string
	answers  bool
}

// ask asks each of the instances how it is.
func (e *examination) ask(ctx context.Context, all []registry.Instance) []word {
	ctx, cancel := context.WithTimeout(ctx, min(e.Wait/2, 2*time.Second))
	defer cancel()
	said := make([]word, len(all))
	asking := pool.New() // one that hangs keeps no other one waiting
	for i, in := range all {
		asking.Go(func() { said[i].notReady, said[i].answers = e.conn.Ready(ctx, in.Service, in.Instance) })
	}
	asking.Wait()
	return said
}

// silent are instances that do not answer and have not taken their leave: the registry is
// read again, since some left while they were asked.
func (e *examination) silent(ctx context.Context, all []registry.Instance, said []word) (found []Finding) {
	now, err := registry.List(ctx, e.conn)
	if err != nil {
		return nil
	}
	some := map[string]bool{} // services of which one answers
	for i, in := range all {
		some[in.Service] = some[in.Service] || said[i].answers
	}
	for i, in := range all {
		same := func(other registry.Instance) bool {
			return other.Service == in.Service && other.Instance == in.Instance
		}
		if said[i].answers || !slices.ContainsFunc(now, same) {
			continue
		}
		f := Finding{State: Warn, What: fmt.Sprintf("%s %s does not answer: it was killed, or hangs", in.Service, in.Instance), Follows: "edges pass it over; calls that it had begun end as unknown", Mend: fmt.Sprintf("if it runs, look at its log and restart it; if it was killed, start another: it is forgotten after %v", registry.BeatTTL)}
		if !some[in.Service] {
			f.State, f.Follows = Wrong, "no instance of the service answers, and its calls fail"
		}
		found = append(found, f)
	}
	return found
}

// unready are instances that say that they are not ready.
func unready(all []registry.Instance, said []word) (found []Finding) {
	for i, in := range all {
		if why := said[i].notReady; why != "" {
			found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%s %s is not ready: %s", in.Service, in.Instance, why), Follows: "edges give it calls all the same; those that need what it lacks fail", Mend: "mend what it says; its log and its /readyz (--metrics-listen) say more"})
		}
	}
	return found
}

// names says what services offer that nobody sees.
func (e *examination) names(ctx context.Context) ([]Finding, error) {
	cfg := catalogue.Config{Logger: slog.New(slog.DiscardHandler), Look: true}
	if e.Access != "" {
		if policy, err := access.ReadPolicy(e.Access); err == nil { // if not, access says so
			cfg.Grants = func() catalogue.Grants { return policy }
		}
	}
	if _, err := registry.List(ctx, e.conn); err != nil { // Open waits for it, and goes on without
		return nil, fmt.Errorf("the catalogue cannot be read: %w", err)
	}
	live, err := catalogue.Open(ctx, e.conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("the catalogue cannot be read: %w", err)
	}
	defer live.Close()
	now := live.Now()
	var found []Finding
	for _, list := range []struct {
		lines []string
		mend  string
	}{
		{now.Problems(), "rename it in one of the services, or give it to the other: busbar services assign KIND/NAME SERVICE"},
		{now.Ungranted(), "grant it in the policy file: busbar access services shows the lines"},
		{now.Waiting(), "busbar access accept"},
	} {
		for _, line := range list.lines {
			found = append(found, Finding{State: Warn, What: line, Follows: "clients do not see it", Mend: list.mend})
		}
	}
	if len(found) == 0 {
		found = append(found, Finding{State: OK, What: "each name is one service's, and clients see all that services offer"})
	}
	return found, nil
}

// clocks compares everybody's clock with the one of the NATS server.
func (e *examination) clocks(ctx context.Context) ([]Finding, error) {
	const follows = "times in the audit trail are wrong; what is sealed is refused where the difference is 5 minutes"
	mend := func(where string) string { return "set the clock of " + where + ": timedatectl set-ntp true" }
	mine, err := registry.ClockAhead(ctx, e.conn)
	if err != nil {
		return nil, fmt.Errorf("the time of the NATS server: %w", err)
	}
	all, err := registry.List(ctx, e.conn)
	if err != nil {
		return nil, fmt.Errorf("the registry cannot be read: %w", err)
	}
	all, _ = crowds(all)
	var found []Finding
	if mine.Abs() > registry.MaxClockOffset {
		found = append(found, Finding{State: Wrong, What: "this machine: its clock is " + off(mine) + " the NATS server's", Follows: follows, Mend: mend("whichever is wrong")})
	}
	for _, in := range all {
		if in.Ahead.Abs() > registry.MaxClockOffset {
			found = append(found, Finding{State: Wrong, What: fmt.Sprintf("%s %s: its clock is %s the NATS server's", in.Service, in.Instance, off(in.Ahead)), Follows: follows, Mend: mend("its machine")})
		}
	}
	if len(found) == 0 {
		found = append(found, Finding{State: OK, What: fmt.Sprintf("this machine and %d instances are within %v of the NATS server", len(all), registry.MaxClockOffset)})
	}
	return found, nil
}

func off(ahead time.Duration) string {
	if ahead < 0 {
		return fmt.Sprintf("%v behind", -ahead.Round(time.Second))
	}
	return fmt.Sprintf("%v ahead of", ahead.Round(time.Second))
}
