package bus

import (
	"context"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/busbar-mcp/busbar/libs/bus/internal/subject"
	"github.com/busbar-mcp/busbar/libs/bus/internal/wire"
)

// fromLeader reads the last write of a key from the server that takes writes. An ordinary read may
// be answered by any server of the cluster that keeps the bucket, even by one that has not received
// the latest write. So a missing key is read once more here. revision is 0 for a key that never
// existed.
func (b *Bucket) fromLeader(ctx context.Context, key string) (value []byte, revision uint64, there bool, err error) {
	msg, err := b.conn.nc.RequestWithContext(ctx, subject.GetFromLeader(b.name), fmt.Appendf(nil, `{"last_by_subj":%q}`, subject.Key(b.name, key)))
	if err != nil {
		return nil, 0, false, wire.NotReached(err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, 0, false, wire.NotReached(err)
	}
	switch m := answer.Message; {
	case answer.Error == nil:
		header, err := nats.DecodeHeadersMsg(m.Header)
		if len(m.Header) > 0 && err != nil {
			return nil, 0, false, wire.NotReached(err)
		}
		return m.Data, m.Sequence, !wire.Deleted(header), nil
	case answer.Error.Code == 404:
		return nil, 0, false, nil
	}
	return nil, 0, false, wire.NotReached(answer.Error)
}
