package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/fault"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/api"
	"github.com/busbar-mcp/busbar/services/edge/door"
	"github.com/busbar-mcp/busbar/services/edge/forms"
	"github.com/busbar-mcp/busbar/services/edge/gateway"
)

// maxBatch bounds a batch that is one JSON value; as lines it may be of any
// length.
//
//limit:message calls of a batch as one JSON value at REST | `too_large`
const maxBatch = 10_000

// ndjson is one JSON value a line, in both directions.
const ndjson = "application/x-ndjson"

// batch carries out many calls concurrently. As application/json it answers with all
// slots in the order of the calls. As application/x-ndjson it answers with each slot when
// its call ends, and calls may be sent the same way.
func (h *Handler) batch(w http.ResponseWriter, r *http.Request, who api.Caller, _ string) error {
	if who.IdempotencyKey != "" {
		return fault.New(fault.InvalidRequest, "a batch has an idempotency_key with each call, not one for all")
	}
	if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); media == ndjson {
		h.lines(w, r, who)
		return nil
	}
	body, err := h.body(w, r)
	if err != nil {
		return err
	}
	var in struct {
		Calls    []jsontext.Value `json:"calls"`
		Parallel int              `json:"parallel,omitzero"`
	}
	if err := json.Unmarshal(body, &in, json.RejectUnknownMembers(true)); err != nil {
		return fault.New(fault.InvalidRequest, "a batch is an object with calls, an array, and optionally parallel, a number").Because(err)
	}
	if len(in.Calls) > maxBatch {
		return fault.New(fault.TooLarge, "a batch has at most %d calls; send more as %s", maxBatch, ndjson)
	}
	calls := slices.Values(in.Calls)
	if r.Header.Get("Accept") == ndjson {
		h.run(r.Context(), newLineWriter(w), who, in.Parallel, nil, calls)
		return nil
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	out := door.NewArray(w, `{"results":[`, `]}`)
	h.each(ctx, h.cfg.API.BatchInOrder, who, in.Parallel, nil, calls, func(_ int, s api.Slot) {
		if !out.Add(s) {
			stop() // nobody reads
		}
	})
	out.End()
	return nil
}

// lines reads calls line by line, while slots go out.
func (h *Handler) lines(w http.ResponseWriter, r *http.Request, who api.Caller) {
	out := newLineWriter(w)
	_ = out.control.EnableFullDuplex()
	// For as long as the batch goes on; a line must not take longer than a body.
	in := bufio.NewReaderSize(r.Body, 64<<10)
	var failed error
	check := func(line jsontext.Value) error { return mcp.Valid(bytes.TrimSpace(line), h.cfg.Limits) }
	h.run(r.Context(), out, who, 0, check, func(yield func(jsontext.Value) bool) {
		for {
			_ = out.control.SetReadDeadline(time.Now().Add(lineTime))
			line, err := readLine(in, h.cfg.Limits.Bytes)
			if len(bytes.TrimSpace(line)) > 0 && err == nil || errors.Is(err, io.EOF) && len(bytes.TrimSpace(line)) > 0 {
				if !yield(line) {
					return
				}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					failed = err
				}
				return
			}
		}
	})
	if failed != nil {
		out.write(door.Problem(failed))
		door.Drain(w, r)
	}
}

// lineTime is how long a client may take to send the next line of a batch.
const lineTime = time.Minute

func readLine(in *bufio.Reader, limit int) (jsontext.Value, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, fault.New(fault.TooLarge, "a line of the batch is longer than %d bytes", limit)
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// run answers with slots as calls end.
func (h *Handler) run(ctx context.Context, out *lineWriter, who api.Caller, parallel int, check func(jsontext.Value) error, calls iter.Seq[jsontext.Value]) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ctx, release := h.cfg.API.TrackAny(ctx)
	defer release()
	h.each(ctx, h.cfg.API.Batch, who, parallel, check, calls, func(i int, s api.Slot) {
		s.Index = &i
		if !out.write(s) {
			stop() // nobody reads
		}
	})
}

// runner is api.Server.Batch or BatchInOrder.
type runner func(context.Context, int, gateway.Calls, func(int, *api.Result, error))

// each carries out calls. A call that cannot be read has its slot as well.
func (h *Handler) each(ctx context.Context, run runner, who api.Caller, parallel int, check func(jsontext.Value) error, calls iter.Seq[jsontext.Value], done func(i int, s api.Slot)) {
	run(ctx, parallel, api.BatchCalls(who, check, calls), func(i int, r *api.Result, err error) { done(i, api.NewSlot(r, err, forms.HTTP)) })
}

// lineWriter writes values as lines.
type lineWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func newLineWriter(w http.ResponseWriter) *lineWriter {
	return &lineWriter{w: w, control: http.NewResponseController(w)}
}

func (o *lineWriter) write(v any) bool {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", ndjson)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return false
	}
	if _, err := door.Paced(o.w).Write(append(b, '\n')); err != nil {
		return false
	}
	return o.control.Flush() == nil
}
