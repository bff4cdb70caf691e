package scratch

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/busbar-mcp/busbar/libs/bustest"
	"github.com/busbar-mcp/busbar/libs/service"
	"github.com/busbar-mcp/busbar/services/edge/catalogue"
)

func TestRace(t *testing.T) {
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	s := service.New("race")
	r, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(context.Background())
	live, err := catalogue.Watch(t.Context(), bustest.Connect(t, url), bustest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for k := range 400 {
		service.AddTool(s, service.Tool{Name: fmt.Sprintf("base%d", k), Description: strings.Repeat("x", 500)}, func(context.Context, *service.Call, struct{}) (*service.Result, error) { return &service.Result{}, nil })
	}
	for i := range 400 {
		var wg sync.WaitGroup
		names := []string{}
		for k := range 2 {
			name := fmt.Sprintf("t%d_%d", i, k)
			names = append(names, name)
			wg.Go(func() {
				service.AddTool(s, service.Tool{Name: name}, func(context.Context, *service.Call, struct{}) (*service.Result, error) { return &service.Result{}, nil })
			})
		}
		wg.Wait()
		deadline := time.Now().Add(2 * time.Second)
		for {
			missing := ""
			for _, n := range names {
				if _, ok := live.Now().Tool(n); !ok {
					missing = n
				}
			}
			if missing == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("round %d: %s was added and not announced", i, missing)
			}
			time.Sleep(2 * time.Millisecond)
		}
		for _, n := range names {
			s.RemoveTool(n)
		}
	}
}

func TestStringOutput(t *testing.T) {
	url := bustest.Server(t)
	conn := bustest.Connect(t, url)
	s := service.New("strings")
	service.AddTool(s, service.Tool{Name: "t"}, func(context.Context, *service.Call, struct{}) (string, error) { return "x", nil })
	r, err := s.Start(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Stop(context.Background())
	live, _ := catalogue.Watch(t.Context(), bustest.Connect(t, url), bustest.Logger(t))
	defer live.Close()
	page, _ := live.Now().Page(catalogue.Tools, nil)
	t.Logf("%s", page)
}
