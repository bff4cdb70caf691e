package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/busbar-mcp/busbar/libs/database/databasetest"
	"github.com/busbar-mcp/busbar/test/bench/process"
)

// system answers calls: one process, or several.
type system struct {
	processes []*process.Process
	address   string // of MCP over HTTP
	key       string // API key; empty where anybody may call
	dir       string // where it keeps its data
	nats      string
	// trail is the directory with the token that opens the audit trail; calls are those that
	// have to be in it.
	trail string
	calls int
	rest  []float64 // see rests
	// Of a fleet: the addresses of its edges, and the URL of its Postgres.
	edges    []string
	database string
}

// start runs one program of a system, and ends it with the group.
func (b *bench) start(s *system, c process.Command) (*process.Process, error) {
	c.Dir, c.Env = b.dir, append(c.Env, b.environment...)
	p, err := process.Start(c)
	if err != nil {
		return nil, err
	}
	b.later(p.Stop)
	s.processes = append(s.processes, p)
	if url := p.Ready["mcp"]; url != "" && s.address == "" {
		s.address = strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/mcp")
	}
	return p, nil
}

// peer starts a program of the module of peers. The floor gives these answers.
func (b *bench) peer(name string, answers ...[]byte) (*system, error) {
	env, err := b.answers(answers)
	if err != nil {
		return nil, err
	}
	s := &system{}
	_, err = b.start(s, process.Command{Name: name, Path: b.programs.path("peers"), Args: []string{name}, Env: env})
	return s, err
}

// answers is the variable that says where they are.
func (b *bench) answers(all [][]byte) ([]string, error) {
	var files []string
	for _, one := range all {
		name, err := b.file("answer", one)
		if err != nil {
			return nil, err
		}
		files = append(files, name)
	}
	return []string{"ANSWER=" + strings.Join(files, ":")}, nil
}

// file writes a file of the group and returns its path.
func (b *bench) file(name string, data []byte) (string, error) {
	f, err := os.CreateTemp(b.dir, name+"-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Close())
}

// folder makes a directory of the group.
func (b *bench) folder(name string) (string, error) { return os.MkdirTemp(b.dir, name+"-*") }

// floorApart is the floor as three processes.
func (b *bench) floorApart(answers ...[]byte) (*system, error) {
	s := &system{}
	dir, err := b.folder("floor")
	if err != nil {
		return nil, err
	}
	env, err := b.answers(answers)
	if err != nil {
		return nil, err
	}
	if err := b.natsServer(s, dir, "", "8MB"); err != nil {
		return nil, err
	}
	if _, err := b.start(s, process.Command{Name: "service", Path: b.programs.path("peers"), Args: []string{"floor-service", s.nats}, Env: env}); err != nil {
		return nil, err
	}
	_, err = b.start(s, process.Command{Name: "edge", Path: b.programs.path("peers"), Args: []string{"floor-edge", s.nats}})
	return s, err
}

// natsServer runs one as deploy/compose/nats.conf configures it, but for TLS and HTTP.
func (b *bench) natsServer(s *system, dir, users, payload string) error {
	// It takes a port itself, and says which in a file: one that was free before may not be now.
	config := fmt.Sprintf("server_name: bench\nlisten: \"127.0.0.1:-1\"\nports_file_dir: %q\nmax_payload: %s\njetstream { store_dir: %q, max_memory_store: 64MB, max_file_store: 8GB }\n", dir, payload, filepath.Join(dir, "nats"))
	if users != "" {
		config += "include " + users + "\n"
	}
	name := filepath.Join(dir, "nats.conf")
	if err := os.WriteFile(name, []byte(config), 0o600); err != nil {
		return err
	}
	_, err := b.start(s, process.Command{
		Name: "nats-server", Path: b.programs.nats, Args: []string{"-c", name},
		ReadyAt: func() (err error) {
			s.nats, err = listensAt(dir)
			return err
		},
	})
	return err
}

// listensAt is where a NATS server says that it listens.
func listensAt(dir string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.ports"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, errors.New("it does not say where it listens"))
	}
	raw, err := os.ReadFile(files[0])
	if err != nil {
		return "", err
	}
	var ports struct {
		NATS []string `json:"nats"`
	}
	if err := json.Unmarshal(raw, &ports); err != nil || len(ports.NATS) == 0 {
		return "", errors.Join(err, fmt.Errorf("it says that it listens at %q", raw))
	}
	return ports.NATS[0], nil
}

// dev starts "busbar dev".
func (b *bench) dev(args ...string) (*system, error) {
	dir, err := b.folder("dev")
	if err != nil {
		return nil, err
	}
	s := &system{dir: dir, trail: dir}
	p, err := b.start(s, process.Command{
		Name: "busbar", Path: b.programs.path("busbar"),
		Args: append([]string{"dev", "--listen", "127.0.0.1:0", "--nats-listen", "127.0.0.1:0", "--data-dir", dir}, args...),
	})
	if err == nil {
		s.nats = p.Ready["nats"]
	}
	return s, err
}

// access has every kind of rule that a call is checked against: roles that allow and deny, and
// limits of each kind.
const access = `
tenants: {acme: {limits: {rate: 1000000/s, concurrent: 100000}}}
roles:
  analyst: {allow: ["tools/*", "resources/*"], deny: ["tools/delete_*"], limits: {rate: 1000000/s, concurrent: 100000}}
principals: {anna: {tenant: acme, roles: [analyst]}}
tools: {text_processor: {rate: 1000000/s}}
`

// guarded starts "busbar dev" with a policy, limits, and a client with an API key.
func (b *bench) guarded() (*system, error) {
	file, err := b.file("access.yaml", []byte(access))
	if err != nil {
		return nil, err
	}
	s, err := b.dev("--access", file)
	if err != nil {
		return nil, err
	}
	// On the machine of "busbar dev" the directory says how to join.
	c := exec.Command(b.programs.path("busbar"), "key", "create", "bench", "--principal", "anna", "--nats", s.nats, "--nats-nkey", filepath.Join(s.dir, "users", "operator.secret"))
	c.Env = process.Environment()
	out, err := c.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("create an API key: %w\n%s", err, out)
	}
	for f := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(f, "bb_") {
			s.key = f
		}
	}
	if s.key == "" {
		return nil, fmt.Errorf("no API key in %q", out)
	}
	return s, nil
}

// bare starts Busbar without what can be left out.
func (b *bench) bare() (*system, error) {
	dir, err := b.folder("bare")
	if err != nil {
		return nil, err
	}
	s := &system{dir: dir}
	_, err = b.start(s, process.Command{Name: "bare", Path: b.programs.path("bare"), Args: []string{"--listen", "127.0.0.1:0", "--data-dir", dir}})
	return s, err
}

// part is a service of a fleet.
type part struct {
	name    string // of its program
	service string // as nats-config has it, with its powers
	stores  bool
	env     []string
}

// fleet is a Busbar as separate processes: a NATS server that knows its users, edges,
// services, the audit service and Postgres that syncs its commits.
func (b *bench) fleet(edges int, parts ...part) (*system, error) {
	dir, err := b.folder("fleet")
	if err != nil {
		return nil, err
	}
	s := &system{dir: dir, trail: filepath.Join(dir, "edge")}
	parts = append([]part{{name: "audit", service: "audit:audit+store", stores: true}}, parts...)
	if err := b.users(s, parts); err != nil {
		return nil, err
	}
	if err := b.natsServer(s, dir, "users.conf", "1MB"); err != nil {
		return nil, err
	}
	for n := range edges {
		data := filepath.Join(dir, "edge")
		if n > 0 {
			data += fmt.Sprint(n + 1)
		}
		p, err := b.start(s, process.Command{Name: "edge", Path: b.programs.path("edge"), Args: []string{
			"--listen", "127.0.0.1:0", "--nats", s.nats, "--nats-nkey", s.secret("edge"), "--data-dir", data, "--audit-spool", filepath.Join(data, "spool"),
		}})
		if err != nil {
			return nil, err
		}
		s.edges = append(s.edges, strings.TrimSuffix(strings.TrimPrefix(p.Ready["mcp"], "http://"), "/mcp"))
	}
	if s.database, err = b.postgres(s); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := b.join(s, p); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// users makes the users of a bus.
func (b *bench) users(s *system, parts []part) error {
	var names []string
	for _, p := range parts {
		if !slices.Contains(names, p.service) {
			names = append(names, p.service)
		}
	}
	config := exec.Command(b.programs.path("busbar"), "nats-config", "--services", strings.Join(names, ","), "--dir", filepath.Join(s.dir, "users"))
	config.Env = process.Environment()
	conf, err := config.Output()
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "users.conf"), conf, 0o600)
	}
	if err != nil {
		return fmt.Errorf("nats-config: %w", err)
	}
	return nil
}

func (s *system) secret(user string) string {
	return filepath.Join(s.dir, "users", user+".secret")
}

// join starts a service of a fleet.
func (b *bench) join(s *system, p part) error {
	service, _, _ := strings.Cut(p.service, ":")
	env := append([]string{"BUSBAR_NATS=" + s.nats, "BUSBAR_NATS_NKEY=" + s.secret(service), "BUSBAR_DATA_DIR=" + filepath.Join(s.dir, service)}, p.env...)
	if p.stores {
		env = append(env, "BUSBAR_DATABASE_URL="+s.database)
	}
	_, err := b.start(s, process.Command{Name: service, Path: b.programs.path(p.name), Env: env})
	return err
}

// postgres starts a server that syncs its commits.
func (b *bench) postgres(s *system) (url string, err error) {
	server, err := databasetest.Run("fsync=on", "shared_buffers=256MB")
	if err != nil {
		return "", fmt.Errorf("no Postgres to measure with: %w; install it (on Debian: postgresql)", err)
	}
	b.later(func() error { server.Close(); return nil })
	s.processes = append(s.processes, process.Adopt("postgres", server.PID()))
	return server.URL(), nil
}
