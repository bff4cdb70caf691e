package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/busbar/internal/terminal"
	"github.com/go-json-experiment/json/jsontext"
)

// BatchOptions are the options of `busbar batch`.
type BatchOptions struct {
	Options
	// File has a call on each line, {"name":…,"parameters":{…}}; "-" is stdin.
	File string
}

// barEvery is how often the line that shows how far a batch has come changes.
const barEvery = 100 * time.Millisecond

// RunBatch is `busbar batch`: it sends the calls of a file to an edge, which
// carries them out concurrently, and prints what became of each, a line
// as each is done; index is the call's place in the file. It returns the exit
// code: ExitToolError when a call failed.
func RunBatch(ctx context.Context, o BatchOptions, stdin io.Reader, stdout, stderr io.Writer) int {
	r := newRun(o.Options, stdout, stderr)
	ctx, stop := r.within(ctx)
	defer stop()
	in, total, err := openBatch(o.File, stdin)
	if err != nil {
		return r.fail(&UsageError{Message: err.Error()}, "")
	}
	defer func() { _ = in.Close() }()
	bar := batchBar{began: time.Now(), total: total, line: r.line}
	safe := func(text string) string { return text }
	if o.Terminal {
		safe = terminal.SafeJSON
	}
	code := ExitOK
	err = r.edge.Batch(ctx, in, func(outcome jsontext.Value, failed bool) error {
		bar.add(failed)
		if failed {
			code = ExitToolError
		}
		if _, err := io.WriteString(stdout, safe(string(outcome))+"\n"); err != nil {
			return fmt.Errorf("cannot write the output: %w", err)
		}
		return nil
	})
	bar.line.clear()
	if err != nil {
		code = r.fail(err, "")
		if bar.done == 0 || code == ExitInterrupted {
			return code
		}
		code = ExitTransport
	}
	fmt.Fprintf(stderr, "%s, %d failed, in %v\n", counted(bar.done, "call"), bar.failed, time.Since(bar.began).Round(time.Millisecond))
	if total > bar.done {
		fmt.Fprintf(stderr, "%s of %s the edge said nothing; whether they ran is unknown\n", r.errStyle.Red("error:"), counted(total-bar.done, "call"))
		return ExitTransport
	}
	return code
}

// counted is a number of things, whose plural ends in s.
func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

// openBatch opens a file and counts its calls; the number of calls on stdin is not known.
func openBatch(name string, stdin io.Reader) (in io.ReadCloser, total int, err error) {
	if name == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	lines := bufio.NewReaderSize(f, 64<<10)
	for blank := true; ; {
		part, err := lines.ReadSlice('\n')
		blank = blank && len(bytes.TrimSpace(part)) == 0
		if err == bufio.ErrBufferFull {
			continue
		}
		if !blank {
			total++
		}
		blank = true
		if err == io.EOF {
			break
		}
		if err != nil {
			_ = f.Close()
			return nil, 0, err
		}
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, total, nil
}

// Batch makes the calls of calls, one on each line, concurrently, and gives
// each what became of one as it is done: an object with the call's index, from
// 0, and whether it failed. An error of each ends the batch.
func (c *Client) Batch(ctx context.Context, calls io.Reader, each func(jsontext.Value, bool) error) error {
	r, err := c.operation(ctx, "batchTools", calls)
	if err != nil {
		return err
	}
	const ndjson = "application/x-ndjson"
	r.Header.Set("Content-Type", ndjson)
	r.Header.Set("Accept", ndjson)
	lost := func(sent bool, err error) error {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return &TransportError{URL: c.shownURL(), Method: mcp.MethodToolsCall, Sent: sent, Err: err}
	}
	resp, err := c.httpClient().Do(r)
	if err != nil {
		return lost(false, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return c.refusal(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxMessage)
	var ended error
	for lines.Scan() {
		line := jsontext.Value(lines.Bytes())
		var outcome struct {
			Index   *int `json:"index"`
			IsError bool `json:"is_error"`
		}
		if err := decode(line, &outcome); err != nil {
			return &ProtocolError{Message: "an outcome is malformed", Err: err}
		}
		if outcome.Index != nil {
			if err := each(line, outcome.IsError); err != nil {
				return err
			}
			continue
		}
		// A problem of the batch as a whole, which ends it.
		if problem := readProblem(line); problem != nil {
			ended = problem
		}
	}
	if err := lines.Err(); err != nil {
		return lost(true, err)
	}
	return ended
}

// batchBar shows how far a batch has come, and how fast.
type batchBar struct {
	line                *progressLine
	began, shown        time.Time
	total, done, failed int
}

func (b *batchBar) add(failed bool) {
	b.done++
	if failed {
		b.failed++
	}
	if now := time.Now(); b.line.on && now.Sub(b.shown) >= barEvery {
		b.shown = now
		p := Progress{Progress: float64(b.done), Message: fmt.Sprintf("%.0f/s, %d failed", float64(b.done)/now.Sub(b.began).Seconds(), b.failed)}
		if b.total > 0 {
			total := float64(b.total)
			p.Total = &total
		}
		b.line.show(p)
	}
}
