-- The version of the reader that read a source last. A source of another version is read again
-- once; one that is gone or was imported has its facts worked out again from the stored messages.
ALTER TABLE sources ADD COLUMN reader INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sources_by_reader ON sources (reader);

-- Several recordings of one session: which of them leads, and the recording that combines them.
ALTER TABLE tellings ADD COLUMN richness INTEGER NOT NULL DEFAULT 0; -- the richest leads
ALTER TABLE tellings ADD COLUMN combined INTEGER NOT NULL DEFAULT 0; -- made of the others

-- Recordings that are known to have no message that the leading one lacks.
CREATE TABLE coverage (
    telling     INTEGER PRIMARY KEY,
    messages    INTEGER NOT NULL,       -- how many of its messages were compared
    leader      INTEGER NOT NULL
) STRICT;
CREATE INDEX coverage_by_leader ON coverage (leader);
