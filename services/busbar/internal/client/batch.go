package client

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strings"
	"time"

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
// carries them out beside each other, and prints what became of each, a line
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
	resp, err := r.client.postBatch(ctx, in)
	if err != nil {
		return r.fail(err, "")
	}
	defer func() { _ = resp.Body.Close() }()
	bar := batchBar{began: time.Now(), total: total, line: progressLine{w: stderr, width: columns(o.Width, r.getenv)}}
	bar.on = o.ErrTerminal && r.getenv("TERM") != "dumb"
	code := r.batchResults(resp.Body, stdout, &bar)
	bar.line.clear()
	if ctx.Err() != nil && code == ExitTransport {
		return r.fail(ctx.Err(), "")
	}
	fmt.Fprintf(stderr, "%d calls, %d failed, in %v\n", bar.done, bar.failed, time.Since(bar.began).Round(time.Millisecond))
	if total > 0 && bar.done < total && code != ExitTransport {
		fmt.Fprintf(stderr, "%s of %d calls the edge said nothing; whether they ran is unknown\n", r.errStyle.red("error:"), total-bar.done)
		return ExitTransport
	}
	return code
}

// openBatch opens a file and counts its calls; those of stdin are not known.
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

// postBatch sends calls as lines, and returns when the edge begins to answer.
func (c *Client) postBatch(ctx context.Context, calls io.Reader) (*http.Response, error) {
	u, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	u.Path = path.Join("/", strings.TrimSuffix(u.Path, "/mcp"), "tools:batch")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), calls)
	if err != nil {
		return nil, &UsageError{Message: err.Error()}
	}
	for name, values := range c.Header {
		r.Header[http.CanonicalHeaderKey(name)] = values
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	r.Header.Set("Accept", "application/x-ndjson")
	r.Header.Set("User-Agent", "busbar/"+c.version())
	resp, err := c.httpClient().Do(r)
	switch {
	case err != nil && ctx.Err() == context.Canceled:
		return nil, ctx.Err()
	case err != nil:
		return nil, &TransportError{URL: c.shownURL(), Err: err}
	case resp.StatusCode != http.StatusOK:
		_ = resp.Body.Close()
		return nil, &HTTPError{URL: c.shownURL(), Status: resp.StatusCode, Location: resp.Header.Get("Location")}
	}
	return resp, nil
}

// batchResults prints what comes, and returns the exit code.
func (r *run) batchResults(in io.Reader, stdout io.Writer, bar *batchBar) int {
	out := bufio.NewWriter(stdout)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	code := ExitOK
	for lines.Scan() {
		line := jsontext.Value(lines.Bytes())
		var slot struct {
			Index   *int   `json:"index,omitzero"`
			IsError bool   `json:"isError,omitzero"`
			Detail  string `json:"detail,omitzero"`
		}
		if err := decode(line, &slot); err != nil || slot.Index == nil {
			// A problem of the batch as a whole, which ends it.
			fmt.Fprintln(r.stderr, r.errStyle.red("error: ")+safeText(slot.Detail))
			code = ExitTransport
			continue
		}
		if slot.IsError && code == ExitOK {
			code = ExitToolError
		}
		bar.add(slot.IsError)
		_, _ = out.Write(line)
		if out.WriteByte('\n') != nil || out.Flush() != nil {
			return ExitTransport
		}
	}
	if lines.Err() != nil || out.Flush() != nil {
		return ExitTransport
	}
	return code
}

// batchBar shows how far a batch has come, and how fast.
type batchBar struct {
	line                progressLine
	on                  bool
	began, shown        time.Time
	total, done, failed int
}

func (b *batchBar) add(failed bool) {
	b.done++
	if failed {
		b.failed++
	}
	if now := time.Now(); b.on && now.Sub(b.shown) >= barEvery {
		b.shown = now
		p := Progress{Progress: float64(b.done), Message: fmt.Sprintf("%.0f/s, %d failed", float64(b.done)/now.Sub(b.began).Seconds(), b.failed)}
		if b.total > 0 {
			total := float64(b.total)
			p.Total = &total
		}
		b.line.show(p)
	}
}
