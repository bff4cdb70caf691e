-- +goose Up
CREATE TABLE audit_chain (
    tenant text PRIMARY KEY,
    seq    integer NOT NULL,
    hash   blob NOT NULL
);
CREATE TABLE audit_event (
    tenant             text NOT NULL,
    seq                integer NOT NULL,
    id                 text NOT NULL,
    call               text NOT NULL,
    time               integer NOT NULL, -- nanoseconds since the Unix epoch
    principal          text NOT NULL,
    client_name        text NOT NULL,
    client_version     text NOT NULL,
    door               text NOT NULL,
    method             text NOT NULL,
    name               text NOT NULL,
    service            text NOT NULL,
    arguments          text NOT NULL,
    arguments_note     text NOT NULL,
    arguments_digest   blob NOT NULL,
    outcome            text NOT NULL,
    executed           text NOT NULL,
    duration           integer NOT NULL, -- nanoseconds
    edge               text NOT NULL,
    traceparent        text NOT NULL,
    idempotency_digest blob NOT NULL,
    delayed            integer NOT NULL,
    hash               blob NOT NULL,
    PRIMARY KEY (tenant, seq)
);
CREATE UNIQUE INDEX audit_event_id ON audit_event (id);
CREATE INDEX audit_event_time ON audit_event (time, id);
CREATE TABLE audit_checkpoint (
    tenant    text NOT NULL,
    seq       integer NOT NULL,
    pruned    integer NOT NULL,
    hash      blob NOT NULL,
    time      integer NOT NULL,
    key       blob NOT NULL,
    signature blob NOT NULL,
    PRIMARY KEY (tenant, seq, pruned)
);
