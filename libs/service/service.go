// Package service is the SDK for putting tools, resources, prompts and skills on the bus. Services
// are stateless: any instance can answer any call, from any client, protocol version or door.
//
// A service is a function that builds it, a Build, and a program that hands the function to Main. A
// complete one is in examples/hello; start reading there, then at AddTool and Call.
//
//	New             an empty service with a name
//	AddTool         a tool, its schemas inferred from Go types; Service.AddTool is
//	                for schemas that are known only at run time
//	AddResource     one resource; AddResourceTemplate, ListResources and
//	                AddResourcePrefix are for many
//	AddPrompt       a prompt whose arguments are a struct, AddTemplate resources
//	                whose variables are one; ListPrompts is for tenants' prompts
//	AddSkill        a skill
//	AskFor          a form for the user, made from a struct
//	CallTo          a tool of any service, with its result as a value
//	Call            a call as its handler sees it: Identity, Progress, Log, Ask, AsTask,
//	                CallTool, Logger; FromContext finds it
//	Errorf          a handler's own failure, for the model; NotFound, Invalid,
//	                Conflict, Forbidden and Busy say more
//	Go, OnStop      work besides calls, and cleanup at the end
//	Check           a condition of readiness; WithHealth checks one at intervals
//	Try             adds definitions that may be invalid, and returns the mistakes
//	Join            serves several services in one process
//	WithMiddleware  wraps every handler
//	WithInstructions
//	                tells models what to know before their first call
//
// Package servicetest tests a service on a bus in the test's process.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/probe"
)

// Service is a set of tools, resources, prompts and skills under one name. Add to it
// at any time; clients are told when a running service changes.
type Service struct {
	name        string
	version     string
	description string
	// instructions are for models; empty for none.
	instructions string
	store        string
	concurrency  int
	log          *slog.Logger
	// namespace begins the names of tools and prompts; empty for none.
	namespace  string
	middleware []Middleware

	// try is held during a Try.
	try sync.Mutex

	mu        sync.Mutex
	tools     map[string]*tool
	resources map[string]*resource
	templates []*template
	prefixes  map[string]ReadFunc
	list      ListFunc
	prompts   map[string]*prompt
	// tenantPrompts are the prompts of tenants.
	tenantPrompts tenantPrompts
	skills        map[string]*servedSkill
	// errs are the mistakes that Start refuses; tried collects mistakes while a Try runs.
	errs     []error
	tried    *[]error
	sample   SampleFunc
	handlers map[string]HandleFunc
	refresh  *refresh
	running  map[*Running]struct{}
	// instances counts the instances that Start has begun and Stop has not ended.
	instances int
	closers   []func()

	// These do not change once an instance runs. figures is nil unless a program shows them.
	loops   []func(context.Context, *bus.Conn) error
	checks  []probe.Check
	shown   []prometheus.Collector
	figures *figures
}

// Option configures a Service.
type Option func(*Service)

// WithVersion sets the SemVer of the service's code. Empty is "0.0.0".
func WithVersion(v string) Option { return func(s *Service) { s.version = cmp.Or(v, s.version) } }

// WithDescription says in a sentence what the service is for, for people who
// look at the bus.
func WithDescription(d string) Option { return func(s *Service) { s.description = d } }

// MaxInstructions and MaxInstructionLines limit the instructions of one service, in bytes and
// lines.
const (
	//limit:service instructions of one service for models | they are left out
	MaxInstructions     = 2 << 10
	MaxInstructionLines = 128
)

// WithInstructions tells models what they must know before they call anything of the service: what
// belongs together, which tool comes first. Edges join the instructions of all services whose
// tools, resources or prompts a client sees, 8 KiB in total. Clients put them before each
// conversation, so be brief; what concerns one tool belongs in its description.
func WithInstructions(text string) Option { return func(s *Service) { s.instructions = text } }

// WithConcurrency sets how many calls one instance runs concurrently, and separately how many
// tasks. Default 64.
func WithConcurrency(n int) Option { return func(s *Service) { s.concurrency = n } }

// WithLogger sets where the service logs. Default slog.Default().
func WithLogger(l *slog.Logger) Option { return func(s *Service) { s.log = l } }

// New makes a service. Calls are addressed to its name on the bus: 1 to 64 characters of a-z, A-Z,
// 0-9, - and _; not client, edge, gateway, operator or developer.
func New(name string, opts ...Option) *Service {
	s := &Service{
		name: name, version: "0.0.0",
		tools: map[string]*tool{}, resources: map[string]*resource{}, prompts: map[string]*prompt{}, prefixes: map[string]ReadFunc{},
		skills: map[string]*servedSkill{}, handlers: map[string]HandleFunc{}, running: map[*Running]struct{}{},
	}
	for _, o := range opts {
		o(s)
	}
	if err := bus.ValidName(name); err != nil {
		s.errs = append(s.errs, fmt.Errorf("service %w", err))
	}
	if len(s.instructions) > MaxInstructions || strings.Count(strings.TrimSpace(s.instructions), "\n") >= MaxInstructionLines || !utf8.ValidString(s.instructions) {
		s.errs = append(s.errs, fmt.Errorf("instructions are UTF-8 of at most %d bytes and %d lines, and these are %d bytes and %d lines", MaxInstructions, MaxInstructionLines, len(s.instructions), 1+strings.Count(strings.TrimSpace(s.instructions), "\n")))
	}
	return s
}

// Name is the service's name on the bus.
func (s *Service) Name() string { return s.name }

// Logger is where the service logs.
func (s *Service) Logger() *slog.Logger {
	if s.log != nil {
		return s.log
	}
	return slog.Default()
}

// SetStore names the data store that the service works on, by an id kept in the store itself, such
// as database.StoreID returns. Start refuses an instance whose store differs from the running
// instances' store: clients would find half of the data at one and the rest at another. While the
// registry cannot be written, Start waits. Call it before the service starts.
func (s *Service) SetStore(id string) { s.store = id }

// errNoFunction refuses a definition without the function that serves it, which would fail at its
// first call.
var errNoFunction = errors.New("its function is nil")

// Try runs add and returns the mistakes of what it adds, each with its name: a tool with an invalid
// schema, a prompt without a name. Everything well formed is added. Outside of Try, Start refuses
// the service for such a mistake, and a running service logs it. Use it for definitions that come
// from elsewhere:
//
//	if err := s.Try(func() { s.AddTool(tool, handler) }); err != nil {
//		s.Logger().Warn("a tool is left out", "error", err)
//	}
//
// Mistakes that other goroutines make meanwhile are returned too. add must not call Try.
func (s *Service) Try(add func()) error {
	s.try.Lock()
	defer s.try.Unlock()
	var mistakes []error
	collect := func(to *[]error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tried = to
	}
	collect(&mistakes)
	defer collect(nil)
	add()
	return look(s, func() error { return errors.Join(mistakes...) })
}

// register adds a definition under the lock and notifies running instances. A mistake is kept and
// returned by Start, so a service is declared without error handling line by line. A mistake made
// while an instance runs is logged instead, so that later instances can start. Within Try, it is
// returned there.
func (s *Service) register(what string, add func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := add(); err != nil {
		err = fmt.Errorf("%s: %w", what, err)
		if s.tried != nil {
			*s.tried = append(*s.tried, err)
			return
		}
		if s.instances > 0 { // Start would not report it
			s.Logger().Error("not added to the running service", "service", s.name, "error", err)
			return
		}
		s.errs = append(s.errs, err)
		return
	}
	// The lock is held, so that the last change is announced last.
	for r := range s.running {
		r.changedLocked()
	}
}

// catalogueLocked describes what the service offers, in stable order.
func (s *Service) catalogueLocked() *busv1.Catalogue {
	c := &busv1.Catalogue{Service: s.name, Instructions: s.instructions}
	for _, t := range sorted(s.tools) {
		c.Tools = append(c.Tools, t.wire)
	}
	for _, r := range sorted(s.resources) {
		c.Resources = append(c.Resources, r.wire)
	}
	for _, t := range s.templates {
		c.ResourceTemplates = append(c.ResourceTemplates, t.wire)
	}
	c.ListsResources = s.list != nil
	c.ListsPrompts = s.tenantPrompts.list != nil
	c.ResourcePrefixes = slices.Sorted(maps.Keys(s.prefixes))
	for _, p := range sorted(s.prompts) {
		c.Prompts = append(c.Prompts, p.wire)
	}
	for _, k := range sorted(s.skills) {
		c.Resources = append(c.Resources, k.main)
		c.Skills = append(c.Skills, k.wire)
	}
	c.Samples = s.sample != nil
	return c
}

// sorted returns a map's values in the order of their keys.
func sorted[V any](m map[string]V) []V {
	out := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[k])
	}
	return out
}

// look calls f under the lock of the service.
func look[V any](s *Service, f func() V) V {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}
