// Package store keeps prompts, all their versions, and which calls have been
// carried out. Package storetest has the tests that every implementation
// passes.
package store

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/busbar-mcp/busbar/libs/database"
)

// Limits of a store.
const (
	// MaxPrompts is how many prompts everybody can have, MaxCatalogue how many bytes
	// their entries take together: all have to fit one message of the bus, with
	// room for the service's tools. A tenant's are bounded by Limits.
	MaxPrompts   = 1000
	MaxCatalogue = 768 << 10
	// KeptVersions is how many versions of a prompt are kept, KeptDeleted of how
	// many deleted prompts, of each tenant.
	KeptVersions = 100
	KeptDeleted  = 100
)

// Limits bound what one tenant keeps; zero is no bound.
type Limits struct {
	Prompts int64
	// Bytes are those of all versions. The oldest that are not the present ones
	// make room for new ones.
	Bytes int64
}

// Version is one version of a prompt.
type Version struct {
	// Tenant is whose it is; empty for everybody's.
	Tenant, Name string
	// Number counts from 1. It goes on after a deletion, which has a number too.
	Number int64
	// Definition is JSON; nil for a deletion.
	Definition []byte
	// Deleted says that the version is a deletion.
	Deleted bool
	// Author is the principal that made it.
	Author string
	// Made is in whole milliseconds, UTC.
	Made time.Time
}

// Change is a version to be.
type Change struct {
	// Tenant is whose prompt it is; empty for everybody's.
	Tenant, Name string
	// Definition is nil to delete.
	Definition []byte
	// Seen is the number of the version that the change is made to; 0 for a
	// prompt that is not there.
	Seen   int64
	Author string
	// Entry is how many bytes the prompt takes in the catalogue, Listed its entry in
	// lists, JSON.
	Entry  int
	Listed []byte
	// Once makes a repetition of the change have no effect; zero for none.
	Once database.Key
}

// Starter is a prompt that Busbar brings.
type Starter struct {
	Name       string
	Definition []byte
	Entry      int
}

// StarterAuthor is the author of what Busbar brings.
const StarterAuthor = "busbar"

// Listed is a prompt in a list of a tenant's.
type Listed struct {
	Name    string
	Version int64
	// Entry is Change.Listed.
	Entry []byte
}

// Store keeps prompts by tenant and name. Any number of instances use the same one at once. A
// store that cannot be reached is a *fault.Error with reason Unavailable, whose
// Executed says whether a change may have been made.
type Store interface {
	// StoreID is the id of the data: see database.StoreID.
	StoreID(ctx context.Context) (string, error)

	// Revision counts the changes made to everybody's prompts so far.
	Revision(ctx context.Context) (int64, error)

	// All returns the present version of every prompt of everybody's that is not
	// deleted, in the order of names, and the revision that this is.
	All(ctx context.Context) ([]Version, int64, error)

	// List returns the prompts of a tenant after a name, in the same order each time,
	// at most limit of them.
	List(ctx context.Context, tenant, after string, limit int) ([]Listed, error)

	// Covered returns the names of everybody's prompts that a tenant has prompts of
	// its own in place of.
	Covered(ctx context.Context, tenant string) ([]string, error)

	// Get returns a version of a prompt; 0 stands for the present one. When
	// there is none, or the prompt was deleted with it, that is a *fault.Error
	// with reason UnknownPrompt.
	Get(ctx context.Context, tenant, name string, number int64) (Version, error)

	// Versions returns all versions of a prompt that are kept, deletions too,
	// the newest first, without their definitions. A name that was never one is
	// UnknownPrompt.
	Versions(ctx context.Context, tenant, name string) ([]Version, error)

	// Write makes a change, and returns the version that came of it without the
	// definition. Of the changes of all instances, each sees those before it.
	// Errors for the client, with nothing changed: Conflict when the prompt
	// has another version than the one seen, with that number as data.version;
	// UnknownPrompt when one was seen and there is none; TooLarge when everybody's
	// prompts would not fit the bus, or the tenant's its limits.
	//
	// A change with a key that was used before is not made again: see
	// database.WriteOnce.
	Write(ctx context.Context, c Change) (Version, error)

	// Seed brings prompts. One that is not there is created, and one whose last
	// author is StarterAuthor is brought up to date, unless it had the very
	// definition before. What somebody has changed or deleted stays so.
	Seed(ctx context.Context, starters []Starter) error

	// Away says why the database is away; see database.Database.
	Away() error
	// Figures are those of the database.
	Figures() []prometheus.Collector
	// Close gives up the connection.
	Close()
}
