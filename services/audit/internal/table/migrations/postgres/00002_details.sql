-- +goose Up
-- What later releases say of events is one JSON object; rows of before have none.
ALTER TABLE audit_event ADD COLUMN more text NOT NULL DEFAULT '';
-- An id is unique among the events of one edge.
CREATE UNIQUE INDEX audit_event_id_edge ON audit_event (id, edge);
DROP INDEX audit_event_id;
