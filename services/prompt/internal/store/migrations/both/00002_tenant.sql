-- +goose Up
-- Prompts belong to a tenant; those that were there are everybody's, whose tenant
-- is empty. Keys cannot be changed in place in both engines.
CREATE TABLE prompt_of_tenant (
    tenant text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    -- 0 or 1. A deleted prompt keeps its versions, and their numbers go on.
    deleted integer NOT NULL,
    -- 0 or 1: Busbar brought the prompt.
    starter integer NOT NULL,
    -- Bytes that it takes in the catalogue on the bus, or in a list.
    entry bigint NOT NULL,
    -- Its entry in lists, JSON, of a prompt that is a tenant's.
    listed text,
    -- Bytes of all its versions.
    size bigint NOT NULL,
    PRIMARY KEY (tenant, name)
);
INSERT INTO prompt_of_tenant (tenant, name, version, deleted, starter, entry, size)
    SELECT '', name, version, deleted, starter, entry, 0 FROM prompt;

CREATE TABLE prompt_of_tenant_version (
    tenant text NOT NULL,
    name text NOT NULL,
    version bigint NOT NULL,
    -- JSON; null where the prompt was deleted.
    definition text,
    author text NOT NULL,
    -- Milliseconds since the Unix epoch.
    made bigint NOT NULL,
    -- Bytes of the definition; 0 for those of everybody, which nobody counts.
    size bigint NOT NULL,
    PRIMARY KEY (tenant, name, version),
    FOREIGN KEY (tenant, name) REFERENCES prompt_of_tenant (tenant, name) ON DELETE CASCADE
);
INSERT INTO prompt_of_tenant_version (tenant, name, version, definition, author, made, size)
    SELECT '', name, version, definition, author, made, 0 FROM prompt_version;

DROP TABLE prompt_version;
DROP TABLE prompt;
ALTER TABLE prompt_of_tenant RENAME TO prompt;
ALTER TABLE prompt_of_tenant_version RENAME TO prompt_version;

ALTER TABLE prompt_key ADD COLUMN tenant text NOT NULL DEFAULT '';
