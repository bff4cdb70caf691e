package database

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"io/fs"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// MigratePostgres brings the tables of owner up to date with the migrations, SQL
// files of goose named 00001_what.sql and so on. Any number of replicas may do
// so at once. Migrations expand first and contract in a later release, so that
// replicas of the release before keep working. A schema that a later release
// made is refused.
func MigratePostgres(ctx context.Context, pool *pgxpool.Pool, owner string, migrations fs.FS) error {
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	id := fnv.New64a()
	_, _ = id.Write([]byte("busbar " + owner))
	// Tries once a second, for as long as another replica may take.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(id.Sum64()>>1)), lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	return migrate(ctx, goose.DialectPostgres, db, owner, migrations, goose.WithSessionLocker(locker))
}

// migrating lets one migration of SQLite happen at a time; another process has
// no business with the file.
var migrating sync.Mutex

// MigrateSQLite is MigratePostgres for SQLite.
func MigrateSQLite(ctx context.Context, db *sql.DB, owner string, migrations fs.FS) error {
	migrating.Lock()
	defer migrating.Unlock()
	return migrate(ctx, goose.DialectSQLite3, db, owner, migrations)
}

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, owner string, migrations fs.FS, options ...goose.ProviderOption) error {
	options = append(options, goose.WithTableName(owner+"_schema"), goose.WithDisableGlobalRegistry(true))
	p, err := goose.NewProvider(dialect, db, migrations, options...)
	if err != nil {
		return fmt.Errorf("migrations of %s: %w", owner, err)
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	// Looked at before and after: another release may migrate at this moment.
	for range 2 {
		has, err := p.GetDBVersion(ctx)
		if err != nil {
			return fmt.Errorf("schema version of %s: %w", owner, err)
		}
		if has > known {
			return fmt.Errorf("the database has version %d of %s's schema and this program knows %d: run the release that made it, or a later one", has, owner, known)
		}
		if _, err := p.Up(ctx); err != nil {
			return fmt.Errorf("migrate %s to version %d: %w", owner, known, err)
		}
	}
	return nil
}
