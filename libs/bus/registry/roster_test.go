package registry

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
)

// beat enters an announcement that was heard live.
func beat(r *roster, service, instance string, at time.Time) (known, changed bool) {
	if !r.admits(service, instance) {
		return false, false
	}
	return r.enter(said{ann: &busv1.Announcement{Service: service, Instance: instance, SentUnixNano: uint64(at.UnixNano())}, at: at})
}

// If there are more instances than MaxInstances, the first known ones stay for as long as they
// announce themselves. A free slot is given to another, and other services are not affected.
func TestRosterIsBounded(t *testing.T) {
	t.Parallel()
	r, now := newRoster(), time.Now()
	beat(r, "evil", "real", now)
	beat(r, "text", "one", now)
	const strangers = 3 * MaxInstances
	flood := func(at time.Time) {
		for i := range strangers {
			beat(r, "evil", fmt.Sprintf("made-up-%d", i), at)
		}
	}
	flood(now)
	if n := len(r.announcements()["evil"]); n != MaxInstances {
		t.Fatalf("%d instances have a place", n)
	}
	if known, _ := beat(r, "evil", "real", now.Add(time.Second)); !known {
		t.Error("an instance that was known has lost its place")
	}
	if _, changed := beat(r, "text", "two", now); !changed || len(r.announcements()["text"]) != 2 {
		t.Error("another service has no place for an instance")
	}
	refused := uint64(strangers - (MaxInstances - 1))
	if all := r.overflows(); len(all) != 1 || all[0].Service != "evil" || all[0].Refused != refused {
		t.Errorf("the floods are %v; %d announcements were refused", all, refused)
	}
	if !r.leave("evil", "made-up-0") || r.leave("evil", "made-up-0") {
		t.Error("an instance leaves once")
	}
	if _, changed := beat(r, "evil", "late", now); !changed {
		t.Error("a free place is not given")
	}
}

// A service with more instances than slots is redeployed in parts: every slot that an instance
// leaves is taken at the next heartbeats, and in the end all slots belong to the new release.
func TestRollingDeployBeyondThePlaces(t *testing.T) {
	t.Parallel()
	r, now := newRoster(), time.Now()
	const all, part = MaxInstances + MaxInstances/5, MaxInstances / 10
	var running []string
	beats := func() {
		for _, instance := range running {
			beat(r, "svc", instance, now)
		}
	}
	for i := range all {
		running = append(running, fmt.Sprintf("old-%d", i))
	}
	beats()
	for i := range all {
		running = append(running, fmt.Sprintf("new-%d", i))
		if (i+1)%part != 0 {
			continue
		}
		beats()
		for _, instance := range running[:part] {
			r.leave("svc", instance)
		}
		running = running[part:]
		beats()
		if n := len(r.announcements()["svc"]); n != MaxInstances {
			t.Fatalf("%d instances have a place when %d are new", n, i+1)
		}
	}
	for _, ann := range r.announcements()["svc"] {
		if !strings.HasPrefix(ann.Instance, "new-") {
			t.Fatalf("%s has a place after it has left", ann.Instance)
		}
	}
}

// If there are more services than MaxServices, the first known ones stay, and the others are
// counted together. So are flooding services, if there are as many.
func TestRosterBoundsServices(t *testing.T) {
	t.Parallel()
	r, now := newRoster(), time.Now()
	beat(r, "text", "one", now)
	const names = 3 * MaxServices
	for i := range names {
		beat(r, fmt.Sprintf("evil-%d", i), "one", now)
	}
	if n := len(r.announcements()); n != MaxServices {
		t.Fatalf("%d services have a place", n)
	}
	if known, _ := beat(r, "text", "one", now.Add(time.Second)); !known {
		t.Error("a service that was known has lost its place")
	}
	if _, changed := beat(r, "text", "two", now); !changed {
		t.Error("a service that is known has no place for an instance")
	}
	want := Overflow{"", names - (MaxServices - 1), fmt.Sprintf("evil-%d", names-1)}
	if all := r.overflows(); len(all) != 1 || all[0] != want {
		t.Errorf("the floods are %v, not %v", all, want)
	}
	if _, changed := r.enter(said{ann: &busv1.Announcement{Service: "listed", Instance: "one"}, at: now, listed: true}); changed {
		t.Error("a service of the bucket has a place beyond the limit")
	}
	r.leave("evil-0", "one")
	if _, changed := beat(r, "late", "one", now); !changed {
		t.Error("a free place is not given")
	}
	for i := range 2 * MaxServices { // one after the other, each with more instances than slots
		service := fmt.Sprintf("flooder-%d", i)
		r.services = map[string]map[string]*entry{service: {}}
		for j := range MaxInstances {
			r.services[service][fmt.Sprint(j)] = &entry{}
		}
		r.admits(service, "stranger")
	}
	if n := len(r.overflows()); n > MaxServices+1 {
		t.Errorf("%d services are counted one by one", n)
	}
}

// Catalogues are kept while there is room, and those that nobody announces any more make room.
func TestCataloguesAreBounded(t *testing.T) {
	t.Parallel()
	s := newCatalogues(nil)
	const size = MaxCatalogues / 4
	all := map[string]announced{}
	for i := range 5 {
		key := fmt.Sprintf("svc-%d.digest", i)
		all[key] = announced{key: key}
		s.arrived[key] = catalogue{&busv1.Catalogue{}, size}
	}
	s.arrived["gone.digest"] = catalogue{&busv1.Catalogue{}, size}
	if s.takeArrived(all); len(s.known) != 4 || s.bytes != MaxCatalogues || len(s.arrived) != 0 {
		t.Fatalf("%d are known, with %d bytes; %d wait", len(s.known), s.bytes, len(s.arrived))
	}
	for key := range s.known {
		delete(all, key)
		break
	}
	if s.forget(all); s.bytes != 3*size {
		t.Errorf("%d bytes are kept after one has gone", s.bytes)
	}
	if err := s.take("late.digest", catalogue{&busv1.Catalogue{}, size}); err != nil {
		t.Error(err)
	}
	data, err := proto.Marshal(&busv1.Catalogue{Service: "svc"})
	if err != nil {
		t.Fatal(err)
	}
	key := catalogueKey("svc", fmt.Sprintf("%x", sha256.Sum256(data)))
	s.wanted[key] = true
	said := &nats.Msg{Subject: subject.Key(bus.CatalogueBucket, key), Data: data}
	if s.waiting = MaxCatalogues; s.heard(said) {
		t.Error("more wait than there may be")
	}
	if s.waiting = 0; !s.heard(said) || s.waiting != len(data) {
		t.Error("a catalogue that is wanted is not taken")
	}
}

// A flood is reported once when it begins, and once when it is over.
func TestRosterTellsFloods(t *testing.T) {
	t.Parallel()
	r := newRoster()
	for i := range MaxInstances + 5 {
		beat(r, "evil", fmt.Sprint(i), time.Now())
	}
	now := time.Now()
	for i, step := range []struct {
		at           time.Time
		began, ended int
	}{{now, 1, 0}, {now.Add(floodOver / 2), 0, 0}, {now.Add(2 * floodOver), 0, 1}, {now.Add(3 * floodOver), 0, 0}} {
		began, ended := r.tell(step.at)
		if len(began) != step.began || len(ended) != step.ended {
			t.Errorf("step %d: began %v, ended %v", i, began, ended)
		}
	}
}

// Announcements heard live count more than the content of the bucket.
func TestRosterPrefersWhatWasHeard(t *testing.T) {
	t.Parallel()
	r, now := newRoster(), time.Now()
	say := func(version string, at time.Time, listed bool) bool {
		_, changed := r.enter(said{ann: &busv1.Announcement{Service: "text", Instance: "one", Version: version, SentUnixNano: uint64(at.UnixNano())}, at: now, listed: listed})
		return changed
	}
	for i, step := range []struct {
		version         string
		at              time.Time
		listed, changed bool
	}{
		{"1", now, true, true},
		{"2", now.Add(time.Second), false, true},
		{"1", now, true, false},
		{"3", now.Add(2 * time.Second), true, true},
		{"3", now.Add(3 * time.Second), false, false},
	} {
		if changed := say(step.version, step.at, step.listed); changed != step.changed {
			t.Errorf("step %d: changed %v", i, changed)
		}
	}
	if v := r.announcements()["text"][0].Version; v != "3" {
		t.Errorf("version %s", v)
	}
}

// Silence counts up to the last answer of the bus, and not while the bus did not answer.
func TestSilenceIsHeard(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }
	var h hearing
	r := newRoster()
	expired := func() bool { return r.expire(h.until().Add(-BeatTTL)) }
	h.caughtUp(at(0))
	beat(r, "text", "one", at(0))
	h.caughtUp(at(15))
	if expired() {
		t.Error("an instance is forgotten in time")
	}
	if h.ask(at(16)); expired() {
		t.Error("an instance is forgotten before the bus has answered")
	}
	if !h.deaf() || h.deaf() {
		t.Error("the loss of the bus is told once")
	}
	if expired() || !h.isDeaf() {
		t.Error("an instance is forgotten while the bus does not answer")
	}
	r.touch(at(60)) // as listen does when the bus answers again
	h.caughtUp(at(60))
	if expired() {
		t.Error("the time without an answer counts as silence")
	}
	if h.caughtUp(at(76)); !expired() {
		t.Error("an instance that was silent for BeatTTL is there")
	}
}

// The registry is current once the bus answers, and the bucket has been read or every instance has
// had time to announce itself.
func TestHearingIsCurrent(t *testing.T) {
	t.Parallel()
	var h hearing
	now := time.Now()
	if h.current(now) {
		t.Error("before the bus has answered")
	}
	h.caughtUp(now)
	if h.current(now) {
		t.Error("before the bucket was read")
	}
	if !h.current(now.Add(deafAfter-time.Millisecond)) && allBeats < deafAfter {
		t.Error("after all beats")
	}
	if h.listed(now.Add(-time.Second)); h.current(now) {
		t.Error("current by a reading that began before the bus answered")
	}
	h.listed(now)
	if !h.current(now) || !h.prompt(now) {
		t.Error("not current although the bus has answered and the bucket is read")
	}
	if h.current(time.Now().Add(deafAfter + time.Second)) {
		t.Error("current although the bus has not answered since")
	}
	if h.ask(now); h.prompt(now.Add(promptly + time.Second)) {
		t.Error("prompt although an answer is overdue")
	}
	h.deaf()
	if h.caughtUp(now); h.current(now) {
		t.Error("current after a gap, before the bucket was read")
	}
	h.caughtUp(now.Add(-allBeats - time.Second)) // since is the beginning
	if h.since = now.Add(-allBeats - time.Second); !h.current(now) {
		t.Error("not current although every instance has announced itself")
	}
}

// Each service counts once for the clock, however many instances it makes up.
func TestClockOfServices(t *testing.T) {
	t.Parallel()
	r, now := newRoster(), time.Now()
	say := func(service, instance string, ahead time.Duration) {
		r.enter(said{ann: &busv1.Announcement{Service: service, Instance: instance}, at: now, ahead: ahead, timed: true})
	}
	for i := range 500 {
		say("evil", fmt.Sprint(i), time.Hour)
	}
	say("text", "one", time.Second)
	if off := median(r.ahead()); off != time.Second {
		t.Errorf("one of two services says that the clock is off by %v", off)
	}
	say("audit", "one", 2*time.Second)
	say("audit", "one", time.Minute) // delayed: the fastest counts
	if off := median(r.ahead()); off != 2*time.Second {
		t.Errorf("most services say that the clock is off by %v", off)
	}
}
