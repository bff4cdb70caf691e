package database

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"io/fs"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// migratePostgres updates the tables of an owner with the migrations, SQL files of goose named
// 00001_what.sql and so on. Any number of replicas may do so concurrently. Migrations expand first
// and contract in a later release, so that replicas of the previous release keep working. The
// schema of a later release is refused.
func migratePostgres(ctx context.Context, pool *pgxpool.Pool, cfg Config) error {
	db := stdlib.OpenDBFromPool(pool)
	defer func() { _ = db.Close() }()
	id := fnv.New64a()
	_, _ = id.Write([]byte("busbar " + cfg.Owner))
	// It tries once a second, for as long as another replica may take.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(id.Sum64()>>1)), lock.WithLockTimeout(1, 120))
	if err != nil {
		return err
	}
	return migrate(ctx, goose.DialectPostgres, db, "postgres", cfg, goose.WithSessionLocker(locker))
}

// migrateSQLite is migratePostgres for a file; it is the file's only writer meanwhile.
func migrateSQLite(ctx context.Context, f *file, cfg Config) error {
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	return migrate(ctx, goose.DialectSQLite3, f.write, "sqlite", cfg)
}

func migrate(ctx context.Context, dialect goose.Dialect, db *sql.DB, engine string, cfg Config, options ...goose.ProviderOption) error {
	migrations, err := fs.Sub(cfg.Migrations, engineDir(cfg.Migrations, engine))
	if err != nil {
		return err
	}
	owner := cfg.Owner
	options = append(options, goose.WithTableName(owner+"_schema"), goose.WithDisableGlobalRegistry(true))
	p, err := goose.NewProvider(dialect, db, migrations, options...)
	if err != nil {
		return fmt.Errorf("migrations of %s, which are *.sql in the directory %s or both of Config.Migrations: %w", owner, engine, err)
	}
	sources := p.ListSources()
	known := sources[len(sources)-1].Version
	// The version is checked before and after: another release may migrate at the same time.
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
