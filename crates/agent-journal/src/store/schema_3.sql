-- The version of the reader that read a source last. A source of another version is read again
-- once; one that is gone or was imported has its facts worked out again from the stored messages.
ALTER TABLE sources ADD COLUMN reader INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sources_by_reader ON sources (reader);

-- Several recordings of one session: which of them leads, and the recording that combines them.
ALTER TABLE tellings ADD COLUMN richness INTEGER NOT NULL DEFAULT 0; -- the richest leads
ALTER TABLE tellings ADD COLUMN combined INTEGER NOT NULL DEFAULT 0; -- made of the others
CREATE INDEX tellings_combined ON tellings (key) WHERE combined = 1;

-- The repository that a session names: `owner/name`, or its root directory.
ALTER TABLE sessions ADD COLUMN repository TEXT;

-- Recordings that are known to have no message that the leading one lacks.
CREATE TABLE coverage (
    telling     INTEGER PRIMARY KEY,
    messages    INTEGER NOT NULL,       -- how many of its messages were compared
    leader      INTEGER NOT NULL
) STRICT;
CREATE INDEX coverage_by_leader ON coverage (leader);

-- Messages by which a session that begins with messages of another one is found: the first
-- message and the first prompt of each recording, and every summary in it.
CREATE TABLE anchors (
    uuid        BLOB NOT NULL,          -- hash of the message's uuid
    telling     INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (uuid, telling)
) WITHOUT ROWID, STRICT;
CREATE INDEX anchors_by_telling ON anchors (telling);
INSERT OR IGNORE INTO anchors SELECT substr(uuids, 1, 8), telling, 0 FROM chunks
    WHERE first = 0 AND length(uuids) >= 8;

-- Sessions that begin with messages of another one (a fork, a resumed copy). The shared messages
-- count for the session that recorded them first.
CREATE TABLE lineages (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,       -- the session that this one continues
    shared      INTEGER NOT NULL        -- how many of the first messages are the other session's
) STRICT;
CREATE INDEX lineages_by_origin ON lineages (origin);
INSERT OR REPLACE INTO meta VALUES ('lineages', 0); -- 1 when all of a journal's sessions were compared

-- How the source ended when it was read, behind the place where a later read goes on.
ALTER TABLE checkpoints ADD COLUMN seen_to INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN seen_guard INTEGER NOT NULL DEFAULT 0;

-- A session that its source no longer holds, although the source is still there.
ALTER TABLE tellings ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;

-- Sessions whose format says that they begin with messages of another one. They are not compared.
CREATE TABLE continuations (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,
    shared      INTEGER NOT NULL        -- how many of the first messages
) STRICT;
CREATE INDEX continuations_by_origin ON continuations (origin);

CREATE INDEX sessions_without_directory ON sessions (key) WHERE cwd IS NULL;

-- A summary whose message no session has belongs to the session in whose file it stands.
ALTER TABLE summaries ADD COLUMN holder INTEGER;                    -- the session in whose file it stands
ALTER TABLE summaries ADD COLUMN found INTEGER NOT NULL DEFAULT 0;  -- a session has the message
CREATE INDEX summaries_by_holder ON summaries (holder) WHERE found = 0;
UPDATE summaries SET holder = told.session FROM (
    SELECT min(tellings.session) AS session, value ->> '$.text' AS text
    FROM tellings, json_each(tellings.account, '$.summaries') GROUP BY 2
) AS told WHERE told.text = summaries.text;

-- Every branch and directory of a session where there are several (JSON), and the summary on
-- record.
ALTER TABLE sessions ADD COLUMN branches TEXT NOT NULL DEFAULT '[]';
ALTER TABLE sessions ADD COLUMN directories TEXT NOT NULL DEFAULT '[]';
ALTER TABLE sessions ADD COLUMN summary TEXT;

-- Files that a session touched: viewed, edited, created, or listed by its format.
CREATE TABLE touched (
    session     INTEGER PRIMARY KEY,
    files       BLOB NOT NULL           -- packed: path, then how often each
) STRICT;
