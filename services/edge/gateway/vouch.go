package gateway

import (
	"context"
	"errors"
	"sync"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

// vouch makes the refusal of a call with an idempotency key speak of the key. Inside the chain,
// executed says whether this call ran. A client that repeats a call wants to know more: whether
// any call with the key ran. So "no" passes only if the record of the key was read and shows that
// none had begun, or if nothing can have run under the key (ADR 0014). The audit trail is inside,
// and records what this call did.
func vouch(cfg *Config) link {
	if cfg.Deduplicator == nil {
		return nil
	}
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			answer, err := next(ctx, r)
			if nothingRan(err) {
				r.unrun = true
				err = r.ofKey(ctx, cfg, fault.From(err))
			}
			return answer, err
		}
	}
}

// hasKey reports whether executed has to speak of an idempotency key.
func (r *run) hasKey() bool { return r.IdempotencyKey != "" && r.Method == mcp.MethodToolsCall }

// ranNot reports whether this call failed before it ran, whatever was done under its key.
func (r *run) ranNot(err error) bool { return r.unrun || nothingRan(err) }

// ofKey is the refusal of a call that did not run, with what is known about its key.
func (r *run) ofKey(ctx context.Context, cfg *Config, f *fault.Error) error {
	switch {
	case r.keyRead: // the Deduplicator has spoken of the key already
		return f
	case r.Account == "": // no caller was admitted, so the key belongs to nobody
		return f
	case mcp.CheckIdempotencyKey(r.IdempotencyKey) != nil: // no call was ever admitted with it
		return f
	}
	v := r.View
	if !r.seen && (r.missing != nil || errors.Is(cfg.Access.Authorize(ctx, v), ErrUnseen)) {
		v.Target = catalogue.Target{} // a target that the caller may not see looks like one that does not exist
	}
	switch t := v.Target.Tool; {
	case t != nil && !v.Writes(): // it has no effect, whatever ran
		return f
	case t != nil && t.KeepsKeys && r.Ran.Answered: // its service has looked
		return f
	case t != nil && t.KeepsKeys:
		return speakingOf(f, fault.Unknown)
	}
	return speakingOf(f, cfg.Deduplicator.Ran(ctx, v))
}

// speakingOf is a refusal that says what earlier calls with the key did.
func speakingOf(f *fault.Error, earlier fault.Executed) error {
	said := *f.Ran(earlier)
	switch earlier {
	case fault.Yes:
		said.Message += "; an earlier call with this idempotency key ran: ask again with the same key for its answer"
	case fault.Unknown:
		said.Message += "; whether an earlier call with this idempotency key ran is not known: ask again with the same key"
	}
	return &said
}

// maxLooks bounds the concurrent reads of records to explain the refusals of one account: a flood
// of refused calls must not become a flood of reads.
const maxLooks = 8

// looks counts the reads that explain refusals, by account.
type looks struct {
	mu sync.Mutex
	of map[string]int
}

// begin reports whether one more read may begin.
func (l *looks) begin(account string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[account] >= maxLooks {
		return false
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.of[account]++
	return true
}

func (l *looks) end(account string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of[account]--; l.of[account] == 0 {
		delete(l.of, account)
	}
}

// Ran implements Deduplicator.
func (k *Keys) Ran(ctx context.Context, v View) fault.Executed {
	if !k.looks.begin(v.Account) {
		return fault.Unknown
	}
	defer k.looks.end(v.Account)
	// Not the client's deadline: a call that was refused because it had no time left has a key,
	// too.
	c := keyedOf(v)
	o, _, err := k.outcomes.Find(context.WithoutCancel(ctx), c.at)
	switch {
	case err != nil:
		return fault.Unknown
	case o == nil && v.Target.Tool == nil:
		return fault.Unknown // a service that keeps keys may have had the tool
	case o == nil:
		return fault.No
	case sameCall(o, c.same) && (o.Ran || o.Settled()):
		return fault.Yes
	case !sameCall(o, c.same) && v.Target.Tool != nil:
		return fault.No // the key is another call's. Without a target this one may have had another name.
	}
	return fault.Unknown
}
