-- +goose Up
-- For both engines. Whoever writes locks the row of the catalogue first, so
-- that changes come one after the other.
CREATE TABLE prompt_catalogue (
    id integer PRIMARY KEY,
    revision bigint NOT NULL
);
INSERT INTO prompt_catalogue (id, revision) VALUES (1, 0);

CREATE TABLE prompt (
    name text PRIMARY KEY,
    version bigint NOT NULL,
    -- 0 or 1. A deleted prompt keeps its versions, and their numbers go on.
    deleted integer NOT NULL,
    -- 0 or 1: Busbar brought the prompt.
    starter integer NOT NULL,
    -- Bytes that it takes in the catalogue on the bus.
    entry bigint NOT NULL
);

CREATE TABLE prompt_version (
    name text NOT NULL REFERENCES prompt (name) ON DELETE CASCADE,
    version bigint NOT NULL,
    -- JSON; null where the prompt was deleted.
    definition text,
    author text NOT NULL,
    -- Milliseconds since the Unix epoch.
    made bigint NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE prompt_key (
    scope text NOT NULL,
    idempotency_key text NOT NULL,
    digest text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    made bigint NOT NULL,
    PRIMARY KEY (scope, idempotency_key)
);
CREATE INDEX prompt_key_made ON prompt_key (made);
