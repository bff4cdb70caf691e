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
	// life is how long a follower is sent records after it asked for them. It asks three
	// times as often.
	life = 15 * time.Second
	// ratePerSecond is how many records one follower is sent by an instance, and burst how many at
	// once. Further records are counted and left out.
	//limit:call log records per second from one instance to one `busbar logs` | more are counted
	ratePerSecond = 100
	burst         = 200
)

// Tap is where the calls of one instance log. It costs a look at a pointer while nobody
// follows.
type Tap struct {
	conn              *bus.Conn
	service, instance string
	clean             Clean

	// followers is replaced, not changed.
	followers atomic.Pointer[[]*follower]
	mu        sync.Mutex // of who replaces it
}

type follower struct {
	filter Filter
	level  int
	// to is where records go, and who the follower is.
	to    string
	until atomic.Int64
	room  *rate.Limiter

	mu     sync.Mutex // keeps the order of what is numbered
	number uint64
}

// Clean returns data without its secrets, JSON as it was given, and of about limit bytes
// at most; cut says that something else is left out.
type Clean func(data []byte, limit int) (clean []byte, cut bool)

// NewTap is the tap of an instance of a service. Nobody can follow it before Serve.
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

// leave tells those who follow that nothing more comes.
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

// Wants reports whether somebody follows who may want a record of that level, counted
// from 1 as those of the bus.
func (t *Tap) Wants(level int) bool {
	all := t.followers.Load()
	if all == nil {
		return false
	}
	now := t.conn.Now().UnixNano()
	return slices.ContainsFunc(*all, func(f *follower) bool { return f.level <= level && f.until.Load() > now })
}

// Say sends a record to each follower that wants it and is within its rate. data is JSON, made when
// that is known, or nothing for what cannot be made.
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
	// Without a lock: values that are logged may log.
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

// asked takes a follower, keeps it for longer, or lets it go. Only inboxes are
// answered: elsewhere a service may publish what an operator may not.
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
