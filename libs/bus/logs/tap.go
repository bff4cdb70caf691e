package logs

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/mcp"
)

const (
	// maxFollowers of one instance.
	maxFollowers = 8
	// life is how long a follower receives records after a request. It repeats the request three
	// times as often.
	life = 15 * time.Second
	// ratePerSecond is how many records one follower receives from an instance per second, and
	// burst how many at once. Further records are counted and left out.
	//limit:call log records per second from one instance to one `busbar logs` | more are counted
	ratePerSecond = 100
	burst         = 200
)

// Tap takes the log records of one instance's calls. While nobody follows, it costs one read of a
// pointer.
type Tap struct {
	conn              *bus.Conn
	service, instance string
	clean             Clean

	// followers is replaced, never modified.
	followers atomic.Pointer[[]*follower]
	mu        sync.Mutex // held while it is replaced
}

type follower struct {
	filter Filter
	level  int
	// to is the inbox for records; it also identifies the follower.
	to    string
	until atomic.Int64
	room  *rate.Limiter

	mu     sync.Mutex // keeps numbered records in order
	number uint64
}

// Clean returns JSON data without its secrets, cut to about limit bytes; cut is set if anything
// other than secrets is left out.
type Clean func(data []byte, limit int) (clean []byte, cut bool)

// NewTap returns the tap of an instance of a service. Nobody can follow it before Serve.
func NewTap(conn *bus.Conn, service string, clean Clean) *Tap {
	return &Tap{conn: conn, service: service, clean: clean}
}

// Serve lets operators follow, until stop.
func (t *Tap) Serve(instance string) (stop func(), err error) {
	t.instance = instance
	end, err := t.conn.Subscribe(subject.Logs(t.service), t.asked)
	if err != nil {
		return nil, err
	}
	return func() { end(); t.leave() }, nil
}

// leave tells followers that no more records come.
func (t *Tap) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.followers.Swap(nil)
	if all == nil {
		return
	}
	for _, f := range *all {
		f.mu.Lock()
		t.send(f.to, said{Here: &here{Service: t.service, Instance: t.instance, Number: f.number, Left: true}})
		f.mu.Unlock()
	}
}

// Wants reports whether a follower may want a record of that level, counted from 1 as on the bus.
func (t *Tap) Wants(level int) bool {
	all := t.followers.Load()
	if all == nil {
		return false
	}
	now := t.conn.Now().UnixNano()
	return slices.ContainsFunc(*all, func(f *follower) bool { return f.level <= level && f.until.Load() > now })
}

// Say sends a record to each follower that wants it and is within its rate. data is called only if
// a follower wants the record; it returns JSON, or nil if that is impossible.
func (t *Tap) Say(of Of, level int, client bool, logger string, data func() []byte) {
	all := t.followers.Load()
	if all == nil {
		return
	}
	now := t.conn.Now()
	var room []*follower
	for _, f := range *all {
		switch {
		case f.level > level || f.until.Load() <= now.UnixNano() || !f.filter.takes(of):
		case f.room.AllowN(now, 1):
			room = append(room, f)
		default:
			f.mu.Lock()
			f.number++
			f.mu.Unlock()
		}
	}
	if len(room) == 0 {
		return
	}
	r := Record{Time: now.UTC(), Service: t.service, Instance: t.instance, Of: of, Level: mcp.LogLevels[level-1], Client: client, Logger: clip(logger)}
	r.Name = clip(r.Name)
	// This holds no lock: logged values may log themselves.
	if raw := data(); raw != nil {
		r.Data, r.Cut = t.clean(raw, maxData)
	}
	for _, f := range room {
		f.mu.Lock()
		f.number++
		r.Number = f.number
		t.send(f.to, said{Record: &r})
		f.mu.Unlock()
	}
}

func (f Filter) takes(of Of) bool {
	return (f.Name == "" || f.Name == of.Name) && strings.HasPrefix(of.Call, f.Call) && (f.Tenant == "" || f.Tenant == of.Tenant)
}

func clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxWord)], "") }

// send publishes without waiting. A lost record leaves a gap in the numbers.
func (t *Tap) send(to string, s said) {
	data, err := json.Marshal(s)
	if err != nil {
		t.conn.Log().Warn("a record for the followers of the logs cannot be encoded", "service", t.service, "error", err)
		return
	}
	_ = t.conn.NATS().Publish(to, data)
}

// asked adds a follower, extends its time, or removes it. It answers only inboxes: on other
// subjects a service may publish where an operator may not.
func (t *Tap) asked(msg *nats.Msg) {
	r, ok := readRequest(msg.Data)
	if !ok || !subject.IsInbox(msg.Reply) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.conn.Now()
	var all []*follower
	var self *follower
	if old := t.followers.Load(); old != nil {
		for _, f := range *old {
			switch {
			case f.until.Load() <= now.UnixNano() || f.to == msg.Reply && r.End:
			case f.to == msg.Reply:
				self = f
				fallthrough
			default:
				all = append(all, f)
			}
		}
	}
	answer := here{Service: t.service, Instance: t.instance}
	switch {
	case r.End:
	case self == nil && len(all) >= maxFollowers:
		answer.Refused = true
	case self == nil:
		self = &follower{filter: r.Filter, level: slices.Index(mcp.LogLevels, r.Level) + 1, to: msg.Reply, room: rate.NewLimiter(ratePerSecond, burst)}
		all = append(all, self)
		answer.New = true
	}
	if self != nil {
		self.until.Store(now.Add(life).UnixNano())
	}
	if t.followers.Store(&all); len(all) == 0 {
		t.followers.Store(nil)
	}
	if self != nil {
		self.mu.Lock()
		defer self.mu.Unlock()
		answer.Number = self.number
	}
	if !r.End {
		t.send(msg.Reply, said{Here: &answer})
	}
}
