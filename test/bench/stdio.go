package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/busbar-mcp/busbar/test/bench/process"
)

// firstTools asks for the list of tools.
var firstTools = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+meta+`}}`+"\n", "")

// stdio is how long a client waits that starts a program: until its first list of tools,
// beside a program that does nothing but embed NATS.
func (b *bench) stdio(ctx context.Context) error {
	old, err := b.folder("stdio")
	if err != nil {
		return err
	}
	if _, err := b.firstAnswer(ctx, `"tools":[`, b.programs.path("busbar"), "stdio", "--data-dir", old); err != nil {
		return err
	}
	var existing, fresh, nothing []float64
	for round := range b.rounds {
		folder, err := b.folder("stdio")
		if err != nil {
			return err
		}
		for _, one := range []struct {
			into *[]float64
			want string
			argv []string
		}{
			{&nothing, "{}", []string{b.programs.path("peers"), "nothing"}},
			{&existing, `"tools":[`, []string{b.programs.path("busbar"), "stdio", "--data-dir", old}},
			{&fresh, `"tools":[`, []string{b.programs.path("busbar"), "stdio", "--data-dir", folder}},
		} {
			took, err := b.firstAnswer(ctx, one.want, one.argv...)
			if err != nil {
				return err
			}
			*one.into = append(*one.into, ms(took))
		}
		b.say("stdio: round %d of %d · nothing %.0f ms · existing directory %.0f ms · fresh directory %.0f ms", round+1, b.rounds, nothing[round], existing[round], fresh[round])
	}
	of, freshOf := ratios(existing, nothing), ratios(fresh, nothing)
	add := func(what, unit string, of []float64, want float64) {
		b.add(row{Group: "stdio", What: what, Unit: unit, Of: of, Want: want, AtMost: true})
	}
	add("busbar stdio to its first tools/list answer, of a do-nothing program with embedded NATS", "", of, 1.5)
	add("the same in a fresh directory", "", freshOf, 1.5)
	add("busbar stdio to its first tools/list answer", "ms", existing, 100)
	add("the same in a fresh directory", "ms", fresh, 100)
	add("the do-nothing program", "ms", nothing, 0)
	return nil
}

// firstAnswer starts a program, asks it for its tools, and has it end.
func (b *bench) firstAnswer(ctx context.Context, want string, argv ...string) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env, c.Dir, c.Stderr = process.Environment(), b.dir, os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return 0, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	_, err = in.Write([]byte(firstTools))
	line, failed := bufio.NewReaderSize(out, 1<<20).ReadString('\n')
	took = time.Since(begin)
	err = errors.Join(err, failed, in.Close(), c.Wait())
	if err == nil && !strings.Contains(line, want) {
		err = fmt.Errorf("%s answered %.300q", argv, line)
	}
	return took, err
}
