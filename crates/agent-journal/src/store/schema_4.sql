-- Format 4: bills that agents keep themselves, and recordings that need not be read again.

-- The bill that an agent keeps of a session itself.
CREATE TABLE bills (
    session     INTEGER PRIMARY KEY,
    states      TEXT NOT NULL,          -- JSON, in the order of their times
    since       INTEGER,                -- when the bill was begun
    left_aside  INTEGER NOT NULL DEFAULT 0 -- states that list less than the messages record
) STRICT;
-- Set on what a bill lists beyond the messages: a sum over calls that no message records.
ALTER TABLE usage ADD COLUMN unrecorded INTEGER NOT NULL DEFAULT 0;

-- Recordings whose source can be asked whether they changed, without being read: what it answered
-- when they were read, and what was counted then.
CREATE TABLE fingerprints (
    telling     INTEGER PRIMARY KEY,
    fingerprint INTEGER NOT NULL,
    records     INTEGER NOT NULL,
    raw         INTEGER NOT NULL,
    skipped     TEXT NOT NULL           -- reason -> count, JSON
) STRICT;
