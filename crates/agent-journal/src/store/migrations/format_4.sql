-- Format 4: bills that agents keep, and fingerprints of recordings.

-- The bill that an agent keeps of a session.
CREATE TABLE bills (
    session     INTEGER PRIMARY KEY,
    states      TEXT NOT NULL,          -- JSON, in order of time
    since       INTEGER,                -- start time of the bill
    left_aside  INTEGER NOT NULL DEFAULT 0 -- states that list less than the messages record
) STRICT;
-- 1 for usage from a bill: a sum over calls that no message records.
ALTER TABLE usage ADD COLUMN unrecorded INTEGER NOT NULL DEFAULT 0;

-- Fingerprints of recordings, for sources that report changes of a session without being read in
-- full, with the record counts of the last read.
CREATE TABLE fingerprints (
    telling     INTEGER PRIMARY KEY,
    fingerprint INTEGER NOT NULL,
    records     INTEGER NOT NULL,
    raw         INTEGER NOT NULL,
    skipped     TEXT NOT NULL           -- reason -> count, JSON
) STRICT;
