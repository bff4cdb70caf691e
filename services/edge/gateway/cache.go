package gateway

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/maypok86/otter/v2"

	busv1 "github.com/busbar-mcp/busbar/gen/busbar/bus/v1"
	"github.com/busbar-mcp/busbar/libs/bus"
	"github.com/busbar-mcp/busbar/libs/mcp"
	"github.com/busbar-mcp/busbar/services/edge/budget"
)

// Bounds of the results that an edge keeps.
const (
	// maxCached is for all results together, in bytes.
	maxCached = 64 << 20
	// maxCachedResult is for one result, in bytes; larger ones are not kept.
	maxCachedResult = 256 << 10
)

// Cache keeps results of the tools that allow it (service.Tool.Cache), at this edge, for equal
// arguments of the same principal, or of all principals.
type Cache struct {
	results      *otter.Cache[cacheKey, kept]
	hits, misses atomic.Int64
}

type cacheKey [sha256.Size]byte

type kept struct {
	result *busv1.Result
	life   time.Duration
}

// NewCache makes an empty cache. Close it.
func NewCache() *Cache {
	return &Cache{results: otter.Must(&otter.Options[cacheKey, kept]{
		MaximumWeight: maxCached,
		Weigher:       func(_ cacheKey, k kept) uint32 { return uint32(len(k.result.Json)+len(k.result.Meta)) + 256 },
		ExpiryCalculator: otter.ExpiryCreatingFunc(func(e otter.Entry[cacheKey, kept]) time.Duration {
			return e.Value.life
		}),
	})}
}

// Close stops the goroutines of the cache.
func (c *Cache) Close() { c.results.StopAllGoroutines() }

// Counts returns how many calls were answered from the cache, and how many could have been but
// were not.
func (c *Cache) Counts() (hits, misses int64) { return c.hits.Load(), c.misses.Load() }

// Size is the approximate size of the kept results, in bytes.
func (c *Cache) Size() uint64 { return c.results.WeightedSize() }

// cached answers from the cache if the call allows it.
func cached(cfg *Config) link {
	cache := cfg.Cache
	if cache == nil {
		return nil
	}
	return func(next handler) handler {
		return func(ctx context.Context, r *run) (*Answer, error) {
			key, ok := r.cacheKey()
			if !ok {
				return next(ctx, r)
			}
			if k, ok := cache.results.GetIfPresent(key); ok {
				cache.hits.Add(1)
				meter := budget.From(ctx)
				meter.For(r.Account)
				if err := meter.Take(len(k.result.Json)); err != nil {
					return nil, err
				}
				// A copy: later code may change the result.
				return &Answer{Result: &busv1.Result{Json: slices.Clone(k.result.Json), Meta: k.result.Meta}}, nil
			}
			cache.misses.Add(1)
			answer, err := next(ctx, r)
			if err == nil && answer.Result != nil && !answer.Result.IsError && len(answer.Result.Json) <= maxCachedResult {
				if life := lifeOf(answer.Result, r.Target.Tool.Cache); life > 0 {
					cache.results.Set(key, kept{&busv1.Result{Json: slices.Clone(answer.Result.Json), Meta: answer.Result.Meta}, life})
				}
			}
			return answer, err
		}
	}
}

// lifeOf is how long a result is kept: as its tool declares, or shorter if the result itself says
// so.
func lifeOf(r *busv1.Result, tool time.Duration) time.Duration {
	if r.CacheMs == nil {
		return tool
	}
	return min(tool, time.Duration(*r.CacheMs)*time.Millisecond)
}

// cacheKey is the key under which the result of a call is kept.
func (r *run) cacheKey() (key cacheKey, ok bool) {
	arguments, ok := sameArguments(r.Arguments)
	if !ok {
		return key, false
	}
	whose := ""
	if !r.Target.Tool.CacheShared {
		whose = r.Principal.ID()
	}
	return cacheKey(digest(whose, r.Target.Service, r.Name, string(arguments))), true
}

var sameLimits = mcp.Limits{
	Bytes: bus.MaxResult, Depth: mcp.DefaultLimits().Depth, Values: bus.MaxResult, Members: bus.MaxResult, NumberBytes: bus.MaxResult, StringBytes: bus.MaxResult,
}

// sameArguments returns the one form of all arguments that are equal: members in any order,
// strings in any spelling, and missing arguments as an empty object. Numbers keep their spelling,
// because the tool gets them so. As the doubles of RFC 8785, different 64-bit integers would be
// equal. ok is false if the arguments are not JSON, or nested deeper than doors allow: sorting
// copies each level once more.
func sameArguments(raw []byte) (arguments jsontext.Value, ok bool) {
	if len(raw) == 0 {
		return jsontext.Value("{}"), true
	}
	if mcp.Valid(raw, sameLimits) != nil {
		return nil, false
	}
	arguments = slices.Clone(raw)
	return arguments, arguments.Format(jsontext.ReorderRawObjects(true), jsontext.Multiline(false)) == nil
}
