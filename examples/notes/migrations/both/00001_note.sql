-- +goose Up
CREATE TABLE notes_note (
	tenant TEXT NOT NULL,   -- empty where there is only one
	id     TEXT NOT NULL,
	author TEXT NOT NULL,
	text   TEXT NOT NULL,
	added  BIGINT NOT NULL, -- milliseconds since 1970
	PRIMARY KEY (tenant, id)
);
CREATE INDEX notes_note_added ON notes_note (tenant, added);
