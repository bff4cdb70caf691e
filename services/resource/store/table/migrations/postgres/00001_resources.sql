-- +goose Up
CREATE TABLE resource (
    tenant      text COLLATE "C" NOT NULL,
    uri         text COLLATE "C" NOT NULL,
    name        text NOT NULL,
    title       text NOT NULL,
    description text NOT NULL,
    mime_type   text NOT NULL,
    annotations text NOT NULL,
    is_binary   boolean NOT NULL,
    size        bigint NOT NULL,
    revision    bigint NOT NULL,
    created     bigint NOT NULL, -- microseconds since the Unix epoch
    updated     bigint NOT NULL,
    names       text NOT NULL, -- folded, for searches
    about       text NOT NULL,
    words       text NOT NULL,
    content     bytea NOT NULL,
    PRIMARY KEY (tenant, uri)
);

-- The outbox.
CREATE TABLE resource_event (
    seq      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant   text NOT NULL,
    uri      text NOT NULL,
    kind     text NOT NULL,
    revision bigint NOT NULL,
    listed   boolean NOT NULL
);

-- Writes with an idempotency key.
CREATE TABLE resource_call (
    tenant   text COLLATE "C" NOT NULL,
    caller   text COLLATE "C" NOT NULL,
    call_key text COLLATE "C" NOT NULL,
    digest   bytea NOT NULL,
    answer   text NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (tenant, caller, call_key)
);
CREATE INDEX resource_call_at ON resource_call (at);
