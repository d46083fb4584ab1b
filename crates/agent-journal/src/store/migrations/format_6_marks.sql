-- Format 6: marks of sessions, and tombstones of forgotten ones.

-- Marks that a person set on sessions. They are never derived, and no read of a source changes them.
CREATE TABLE IF NOT EXISTS marks (
    session     INTEGER NOT NULL,       -- key of the session, the same on every machine
    kind        TEXT NOT NULL,          -- star, tag, note or title
    name        TEXT NOT NULL,          -- of a tag; empty for other kinds
    value       TEXT,                   -- text of a note or title; NULL if the mark was removed
    device      INTEGER NOT NULL,       -- identity of the journal that made the last change
    counter     INTEGER NOT NULL,       -- of all changes that this journal knew of
    at          INTEGER NOT NULL,
    PRIMARY KEY (session, kind, name)
) WITHOUT ROWID, STRICT;

-- Sessions that are not read: forgotten ones (tombstones), and excluded ones.
CREATE TABLE IF NOT EXISTS unread_sessions (
    session     INTEGER PRIMARY KEY,
    agent       TEXT NOT NULL,
    native      TEXT NOT NULL,
    reason      TEXT NOT NULL,          -- forgotten or excluded
    place       TEXT,                   -- directory of an excluded session
    parent      INTEGER,                -- the session it was forgotten with
    device      INTEGER NOT NULL,
    counter     INTEGER NOT NULL,
    at          INTEGER NOT NULL
) STRICT;

-- Sources that contain sessions that are not read. Their checkpoints are not stored, because a
-- checkpoint can contain text, and so that a later read finds the sessions again.
CREATE TABLE IF NOT EXISTS unread_sources (
    session     INTEGER NOT NULL,
    source      INTEGER NOT NULL,
    PRIMARY KEY (session, source)
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS unread_by_source ON unread_sources (source);

-- Files that sessions were read from before they were forgotten. The archive never contains them.
CREATE TABLE IF NOT EXISTS unread_files (
    session     INTEGER NOT NULL,
    file        INTEGER NOT NULL,       -- hash of the path, as in archive_files
    PRIMARY KEY (session, file)
) WITHOUT ROWID, STRICT;
