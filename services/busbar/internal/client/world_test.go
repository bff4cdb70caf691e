package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge"
)

// world is a real edge with a service behind.
type world struct {
	// url is the URL of the edge.
	url string
	// started has a value for each call of wait that began.
	started chan struct{}
}

// input takes anything.
type input struct {
	Text string `json:"text,omitzero"`
	Size int    `json:"size,omitzero"`
}

type length struct {
	Length int `json:"length"`
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, edge.ListenFlags{Listen: "127.0.0.1:0"})
}

func newWorldAt(t *testing.T, flags edge.ListenFlags) *world {
	t.Helper()
	w := &world{started: make(chan struct{}, 64)}
	url := bustest.Server(t)
	running, err := w.service(t).Start(t.Context(), bustest.Connect(t, url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = running.Stop(ctx) // what still runs is cancelled
	})
	ctx, cancel := context.WithTimeout(t.Context(), bustest.Patience)
	defer cancel()
	e, err := edge.New(ctx, bustest.Connect(t, url), edge.Config{Version: "1", Logger: bustest.Logger(t), Audit: edge.Audit{Off: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	if err := e.Await(ctx, "svc"); err != nil {
		t.Fatal(err)
	}
	l, err := flags.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	w.url = strings.TrimPrefix(l.String(), "mcp=")
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.ServeAll(serving, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// service has a tool for each way a call may go.
func (w *world) service(t *testing.T) *service.Service {
	s := service.New("svc", service.WithVersion("1.0.0"), service.WithLogger(bustest.Logger(t)))
	yes := true
	text := func(text string) (*service.Result, error) {
		return &service.Result{Content: []mcp.Content{mcp.Text(text)}}, nil
	}
	service.AddTool(s, service.Tool{Name: "say", Title: "Say", Description: "Says it\nagain.", ReadOnly: true},
		func(_ context.Context, _ *service.Call, in input) (*service.Result, error) { return text(in.Text) })
	service.AddTool(s, service.Tool{Name: "measure", InputSchema: []byte(`{"type":"object","properties":{"text":{"type":"string","description":"What to measure."}},"required":["text"]}`)},
		func(_ context.Context, _ *service.Call, in input) (length, error) { return length{len(in.Text)}, nil })
	service.AddTool(s, service.Tool{Name: "count"}, func(_ context.Context, c *service.Call, _ input) (*service.Result, error) {
		c.Progress(1, 4, "one")
		c.Log("info", "svc", "not for the command line")
		c.Progress(2, 0, "")
		return text("counted")
	})
	service.AddTool(s, service.Tool{Name: "fail"}, func(context.Context, *service.Call, input) (*service.Result, error) {
		return nil, service.Errorf("no such city")
	})
	service.AddTool(s, service.Tool{Name: "panic"}, func(context.Context, *service.Call, input) (*service.Result, error) { panic("secret") })
	service.AddTool(s, service.Tool{Name: "ask"}, func(_ context.Context, c *service.Call, _ input) (*service.Result, error) {
		_, err := c.Ask(service.Elicit("name", "Who?", map[string]any{"type": "object", "properties": map[string]any{}}))
		return nil, err
	})
	service.AddTool(s, service.Tool{Name: "order"}, func(_ context.Context, c *service.Call, _ input) (*service.Result, error) {
		const form = `{"type":"object","properties":{"drink":{"type":"string","title":"What","enum":["tea","coffee"]},"cups":{"type":"integer","default":1},"milk":{"type":"boolean"},"note":{"type":"string"}},"required":["drink"]}`
		said, err := c.Ask(service.Elicit("order", "What\u009b will it be?", jsontext.Value(form)))
		if err != nil {
			return nil, err
		}
		var got struct {
			Drink string `json:"drink"`
			Note  string `json:"note"`
			Cups  int    `json:"cups"`
			Milk  bool   `json:"milk"`
		}
		action, err := said.Elicited("order", &got)
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprint(action, " ", got))
	})
	service.AddTool(s, service.Tool{Name: "garnish"}, func(_ context.Context, c *service.Call, _ input) (*service.Result, error) {
		const form = `{"type":"object","properties":{"pieces":{"type":"integer","maximum":9},"note":{"type":"string","minLength":3},"with":{"type":"array","items":{"type":"string","enum":["honey","lemon"]},"maxItems":2}},"required":["pieces"]}`
		said, err := c.Ask(service.Elicit("garnish", "How?", jsontext.Value(form)))
		if err != nil {
			return nil, err
		}
		var got struct {
			Note   string   `json:"note"`
			With   []string `json:"with"`
			Pieces int      `json:"pieces"`
		}
		action, err := said.Elicited("garnish", &got)
		if err != nil {
			return nil, err
		}
		return text(fmt.Sprint(action, " ", got))
	})
	service.AddTool(s, service.Tool{Name: "long", Task: service.TaskRequired}, func(_ context.Context, _ *service.Call, in input) (*service.Result, error) {
		if in.Text == "fail" {
			return nil, service.Errorf("no luck")
		}
		return text("done " + in.Text)
	})
	s.AddPrompt(mcp.Prompt{Name: "greet", Description: "Greets.", Arguments: []mcp.PromptArgument{{Name: "who", Required: true}}},
		func(_ context.Context, _ *service.Call, a map[string]string) ([]mcp.PromptMessage, error) {
			return []mcp.PromptMessage{{Role: "user", Content: mcp.Text("Hello\u009b " + a["who"])}}, nil
		}, map[string]service.CompleteFunc{"who": func(_ context.Context, _ *service.Call, typed string, _ map[string]string) ([]string, error) {
			return []string{typed + "nna", typed + "da\u009b"}, nil
		}})
	s.AddResource(mcp.Resource{URI: "svc://logo", Name: "logo", MIMEType: "image/png"}, func(_ context.Context, _ *service.Call, uri string, _ map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, MIMEType: "image/png", Blob: []byte("\x89PNG")}}, nil
	})
	s.AddResourceTemplate(mcp.ResourceTemplate{URITemplate: "svc://notes/{id}", Name: "notes"}, func(_ context.Context, _ *service.Call, uri string, vars map[string]string) ([]mcp.ResourceContents, error) {
		return []mcp.ResourceContents{{URI: uri, Text: "note\u009b " + vars["id"]}}, nil
	}, nil)
	service.AddTool(s, service.Tool{Name: "big"}, func(_ context.Context, _ *service.Call, in input) (*service.Result, error) {
		return text(strings.Repeat("x", in.Size))
	})
	wait := func(ctx context.Context, _ *service.Call, _ input) (*service.Result, error) {
		w.started <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	service.AddTool(s, service.Tool{Name: "wait"}, wait)
	service.AddTool(s, service.Tool{Name: "watch", ReadOnly: true}, wait)
	service.AddTool(s, service.Tool{Name: "stuck", Timeout: 3 * time.Second}, wait)
	service.AddTool(s, service.Tool{Name: "wipe", Description: "Wipes it.", RequiresUserApproval: true, Annotations: mcp.ToolAnnotations{DestructiveHint: &yes}},
		func(_ context.Context, _ *service.Call, in input) (*service.Result, error) {
			if in.Text == "fail" {
				return nil, service.Errorf("it is full")
			}
			return text("wiped " + in.Text)
		})
	return s
}

// changing is what differs from one run to the next.
var changing = regexp.MustCompile(`[A-Z2-7]{26}|\d{4}-\d\d-\d\dT[0-9:.]+Z|in [0-9.]+[mµ]?s\b|in (\d+m)?\d+s\b`)

// constant is an outcome without what differs from one run to the next.
func (w *world) constant(o outcome) outcome {
	for _, text := range []*string{&o.stdout, &o.stderr} {
		*text = changing.ReplaceAllString(strings.ReplaceAll(*text, w.url, "URL"), "…")
	}
	return o
}

func (w *world) options() Options {
	return Options{URL: w.url, Timeout: 20 * time.Second, Version: "1", Getenv: noEnv}
}

func runApprove(t *testing.T, o ApproveOptions, stdin io.Reader) outcome {
	t.Helper()
	return heard(t, stdin, func(out, errs io.Writer) int { return RunApprove(t.Context(), o, stdin, out, errs) })
}

func runBatch(t *testing.T, o BatchOptions, stdin io.Reader) outcome {
	t.Helper()
	return heard(t, stdin, func(out, errs io.Writer) int { return RunBatch(t.Context(), o, stdin, out, errs) })
}

// heard runs a command, once more where NATS was not heard.
func heard(t *testing.T, stdin io.Reader, run func(out, errs io.Writer) int) (o outcome) {
	t.Helper()
	bustest.Eventually(t, "NATS is heard", func() bool {
		if again, ok := stdin.(io.Seeker); ok {
			_, _ = again.Seek(0, io.SeekStart)
		}
		var out, errs bytes.Buffer
		code := run(&out, &errs)
		o = outcome{code, out.String(), errs.String()}
		return !bustest.StoodStill(o.stdout + o.stderr)
	})
	return o
}

// cutter stands before a URL's host and cuts connections.
type cutter struct {
	l    net.Listener
	cut  chan struct{}
	done chan struct{}
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	c := &cutter{l: listen(t), cut: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(c.done)
		for {
			in, err := c.l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				t.Error(err)
				return
			}
			go func() { _, _ = io.Copy(out, in) }()
			go func() { _, _ = io.Copy(in, out) }()
			go func() {
				<-c.cut
				_, _ = in.Close(), out.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		_ = c.l.Close()
		<-c.done
	})
	return c
}
