package bus

import (
	"context"
	"errors"

	"github.com/busbar-mcp/busbar/libs/fault"
)

// Each calls f with every key that begins with prefix, which ends with a dot,
// and its value, in no order.
func (b *Bucket) Each(ctx context.Context, prefix string, f func(key string, value []byte)) error {
	keys, err := b.kv.ListKeysFiltered(ctx, prefix+">")
	if err != nil {
		return fault.New(fault.Unavailable, "shared state is not reachable; try again shortly").Because(err)
	}
	var all []string
	for key := range keys.Keys() {
		all = append(all, key)
	}
	for _, key := range all {
		value, err := b.Get(ctx, key)
		if errors.Is(err, ErrNoKey) {
			continue // gone since
		}
		if err != nil {
			return err
		}
		f(key, value)
	}
	return ctx.Err()
}
