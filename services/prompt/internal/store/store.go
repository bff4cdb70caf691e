// Package store keeps prompts with all their versions, and the calls that have been executed. Start at
// Store. Package storetest has the tests that every implementation must pass.
package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/database"
)

// Limits of a store.
const (
	// MaxPrompts is the largest number of shared prompts, MaxCatalogue the total size of their
	// catalogue entries in bytes: all must fit in one message of the bus, together with the
	// service's tools. Limits bounds the prompts of a tenant.
	MaxPrompts = 1000
	//limit:store names, descriptions and arguments of all shared prompts | `too_large`
	MaxCatalogue = 768 << 10
	// KeptVersions is how many versions of a prompt are kept, KeptDeleted how many deleted
	// prompts of each tenant.
	//limit:store versions of a prompt | the oldest are removed
	KeptVersions = 100
	KeptDeleted  = 100
)

// Limits bounds the prompts of one tenant; zero means no limit.
type Limits struct {
	Prompts int64
	// Bytes is the size of all versions. If it is exceeded, the oldest versions that are not
	// current are dropped.
	Bytes int64
}

// Version is one version of a prompt.
type Version struct {
	// Tenant owns the prompt; empty for a shared prompt.
	Tenant, Name string
	// Number counts from 1. A deletion has a number, too, and the count continues after it.
	Number int64
	// Definition is JSON; nil for a deletion.
	Definition []byte
	// Deleted is set if the version is a deletion.
	Deleted bool
	// Author is the principal that made it.
	Author string
	// Made is in whole milliseconds, UTC.
	Made time.Time
}

// Change describes a new version.
type Change struct {
	// Tenant owns the prompt; empty for a shared prompt.
	Tenant, Name string
	// Definition is JSON; nil deletes the prompt.
	Definition []byte
	// Seen is the number of the version that the change is based on; 0 if the prompt does
	// not exist.
	Seen   int64
	Author string
	// Entry is the size of the prompt in the catalogue, in bytes. Listed is its entry in
	// lists, as JSON.
	Entry  int
	Listed []byte
	// Once is the key that makes a repeated change have no effect; zero means no key.
	Once database.Key
}

// Starter is a prompt that comes with Busbar.
type Starter struct {
	Name       string
	Definition []byte
	Entry      int
}

// StarterAuthor is the author of starters.
const StarterAuthor = "busbar"

// Listed is a tenant's prompt in a list.
type Listed struct {
	Name    string
	Version int64
	// Entry is Change.Listed.
	Entry []byte
}

// Store keeps prompts by tenant and name. Any number of instances can use it
// concurrently. If it cannot be reached, the error is a *fault.Error with reason
// Unavailable; its Executed says whether a change may have been made.
type Store interface {
	// StoreID returns the id of the data; see database.StoreID.
	StoreID(ctx context.Context) (string, error)

	// Revision returns the number of changes of shared prompts so far.
	Revision(ctx context.Context) (int64, error)

	// All returns the current version of every shared prompt that is not deleted, ordered
	// by name, and their revision.
	All(ctx context.Context) ([]Version, int64, error)

	// List returns the prompts of a tenant after a name, in a fixed order, at most limit of
	// them.
	List(ctx context.Context, tenant, after string, limit int) ([]Listed, error)

	// Covered returns the names of shared prompts that a tenant has replaced by its own
	// prompts.
	Covered(ctx context.Context, tenant string) ([]string, error)

	// Get returns a version of a prompt; number 0 means the current one. If it does not exist, or
	// the version is a deletion, the error is a *fault.Error with reason UnknownPrompt.
	Get(ctx context.Context, tenant, name string, number int64) (Version, error)

	// Versions returns all kept versions of a prompt, including deletions, newest first,
	// without their definitions. A name that never had a prompt is
	// UnknownPrompt.
	Versions(ctx context.Context, tenant, name string) ([]Version, error)

	// Write makes a change, and returns the new version without its definition. The changes of all
	// instances are serialized. Errors for the client, with nothing changed: Conflict if the prompt
	// has another version than the one seen, with that number as data.version; UnknownPrompt if one
	// was seen but no longer exists; TooLarge if the shared prompts would not fit the bus, or the
	// tenant's prompts would exceed its limits.
	//
	// A change with a key that was used before is not made again: see
	// database.WriteOnce.
	Write(ctx context.Context, c Change) (Version, error)

	// Seed writes starters. It creates a missing one. It updates one whose last author is
	// StarterAuthor, unless the definition is one it had before. It does not touch a prompt that a
	// user has changed or deleted.
	Seed(ctx context.Context, starters []Starter) error

	// Away returns why the database is unavailable; see database.Database.
	Away() error
	// Figures returns the metrics of the database.
	Figures() []prometheus.Collector
	// Close closes the connection.
	Close()
}
