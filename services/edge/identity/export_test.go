package identity

import "context"

// Deafen makes keys miss further changes.
func (k *Keys) Deafen() { k.stops[0](); k.stops = k.stops[1:] }

// Resync reads all keys again.
func (k *Keys) Resync(ctx context.Context) { k.resync(ctx) }
