package store

import (
	"context"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/fault"
)

// Stream is what an edge has to know to continue an answer that another edge began.
type Stream struct {
	// Name and Home belong to the edges.Stream.
	Name string `json:"-"`
	Home string `json:"home"`
	// Session is the session that the answer is for.
	Session string `json:"session"`
	// Request is the client's message.
	Request jsontext.Value `json:"request"`
	// Cut says that Request lacks its arguments, which are too large to keep.
	Cut bool `json:"cut,omitzero"`
	// Edge serves the stream; empty if it was left for the client to come back.
	Edge string `json:"edge,omitzero"`
}

// Streams remembers the answers that clients may come back for, where any edge finds them.
type Streams struct{ bucket *bus.Bucket }

// NewStreams opens the store.
func NewStreams(conn *bus.Conn) *Streams { return &Streams{conn.Bucket(bus.StreamsBucket)} }

// Put stores what is known of a stream. Its *fault.Error has reason Unavailable.
func (s *Streams) Put(ctx context.Context, n *Stream) error {
	raw, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return s.bucket.Put(ctx, n.Name, raw)
}

// Get returns a stream of a session. The error has reason HistoryLost if no stream has that name,
// if it is kept no longer, or if it belongs to another session.
func (s *Streams) Get(ctx context.Context, name, session string) (*Stream, error) {
	if !validID(name) {
		return nil, lost()
	}
	raw, err := s.bucket.Get(ctx, name)
	if errors.Is(err, bus.ErrNoKey) {
		return nil, lost()
	}
	if err != nil {
		return nil, err
	}
	n := &Stream{Name: name}
	if err := json.Unmarshal(raw, n); err != nil {
		return nil, err
	}
	if n.Session != session {
		return nil, lost()
	}
	return n, nil
}

// Take makes an edge the one that serves a stream. It reports false if another edge has taken the
// stream in between; from says which edge served it before.
func (s *Streams) Take(ctx context.Context, name, from, edge string) (bool, error) {
	taken := false
	err := s.bucket.Change(ctx, name, func(raw []byte) ([]byte, error) {
		var n Stream
		if err := json.Unmarshal(raw, &n); err != nil {
			return nil, err
		}
		if taken = n.Edge == from; taken {
			n.Edge = edge
		}
		return json.Marshal(n)
	})
	if errors.Is(err, bus.ErrNoKey) {
		return false, lost()
	}
	return taken, err
}

func lost() error {
	return fault.New(fault.HistoryLost, "what Last-Event-ID names is not kept for this session, or no longer; send the request again")
}
