-- +goose Up
CREATE TABLE resource (
    tenant      text NOT NULL,
    uri         text NOT NULL,
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
    content     blob NOT NULL,
    PRIMARY KEY (tenant, uri)
);

-- The outbox.
CREATE TABLE resource_event (
    seq      integer PRIMARY KEY AUTOINCREMENT,
    tenant   text NOT NULL,
    uri      text NOT NULL,
    kind     text NOT NULL,
    revision bigint NOT NULL,
    listed   boolean NOT NULL
);

-- Writes with an idempotency key.
CREATE TABLE resource_call (
    tenant   text NOT NULL,
    caller   text NOT NULL,
    call_key text NOT NULL,
    digest   blob NOT NULL,
    answer   text NOT NULL,
    at       bigint NOT NULL,
    PRIMARY KEY (tenant, caller, call_key)
);
CREATE INDEX resource_call_at ON resource_call (at);
