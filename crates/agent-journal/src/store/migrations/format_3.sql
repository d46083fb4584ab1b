-- The reader version that read a source last. A source of another version is read again once. If it
-- no longer exists or was imported, its facts are derived again from the stored messages.
ALTER TABLE sources ADD COLUMN reader INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sources_by_reader ON sources (reader);

-- Several recordings of one session: the richest one leads, and one may combine the others.
ALTER TABLE tellings ADD COLUMN richness INTEGER NOT NULL DEFAULT 0; -- sum of the features it has
ALTER TABLE tellings ADD COLUMN combined INTEGER NOT NULL DEFAULT 0; -- 1 if made of the others
CREATE INDEX tellings_combined ON tellings (key) WHERE combined = 1;

-- The repository that a session names: `owner/name`, or its root directory.
ALTER TABLE sessions ADD COLUMN repository TEXT;

-- Recordings without any message that the leading recording lacks.
CREATE TABLE coverage (
    telling     INTEGER PRIMARY KEY,
    messages    INTEGER NOT NULL,       -- number of messages that were compared
    leader      INTEGER NOT NULL
) STRICT;
CREATE INDEX coverage_by_leader ON coverage (leader);

-- Messages that identify sessions which begin with messages of another one: the first message and
-- the first prompt of each recording, and every summary in it.
CREATE TABLE anchors (
    uuid        BLOB NOT NULL,          -- hash of the message's uuid
    telling     INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (uuid, telling)
) WITHOUT ROWID, STRICT;
CREATE INDEX anchors_by_telling ON anchors (telling);
INSERT OR IGNORE INTO anchors SELECT substr(uuids, 1, 8), telling, 0 FROM chunks
    WHERE first = 0 AND length(uuids) >= 8;

-- Sessions that begin with messages of another one: forks and resumed copies. The shared messages
-- count for the session that recorded them first.
CREATE TABLE lineages (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,       -- the session that this one continues
    shared      INTEGER NOT NULL        -- number of leading messages of the other session
) STRICT;
CREATE INDEX lineages_by_origin ON lineages (origin);
INSERT OR REPLACE INTO meta VALUES ('lineages', 0); -- 1 after all sessions were compared

-- The end of the source when it was read, behind the position at which a later read continues.
ALTER TABLE checkpoints ADD COLUMN seen_to INTEGER NOT NULL DEFAULT 0;
ALTER TABLE checkpoints ADD COLUMN seen_guard INTEGER NOT NULL DEFAULT 0;

-- 1 if the source still exists, but no longer contains the session.
ALTER TABLE tellings ADD COLUMN gone INTEGER NOT NULL DEFAULT 0;

-- Sessions whose format declares that they begin with messages of another one. They are not
-- compared.
CREATE TABLE continuations (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,
    shared      INTEGER NOT NULL        -- number of leading messages
) STRICT;
CREATE INDEX continuations_by_origin ON continuations (origin);

CREATE INDEX sessions_without_directory ON sessions (key) WHERE cwd IS NULL;

-- A summary whose message no session has belongs to the session whose file contains the summary.
ALTER TABLE summaries ADD COLUMN holder INTEGER; -- the session whose file contains it
ALTER TABLE summaries ADD COLUMN found INTEGER NOT NULL DEFAULT 0; -- 1 if a session has the message
CREATE INDEX summaries_by_holder ON summaries (holder) WHERE found = 0;
UPDATE summaries SET holder = told.session FROM (
    SELECT min(tellings.session) AS session, value ->> '$.text' AS text
    FROM tellings, json_each(tellings.account, '$.summaries') GROUP BY 2
) AS told WHERE told.text = summaries.text;

-- All branches and directories of a session if there are several (JSON), and the recorded summary.
ALTER TABLE sessions ADD COLUMN branches TEXT NOT NULL DEFAULT '[]';
ALTER TABLE sessions ADD COLUMN directories TEXT NOT NULL DEFAULT '[]';
ALTER TABLE sessions ADD COLUMN summary TEXT;

-- Files that a session touched: viewed, edited, created, or listed by its format.
CREATE TABLE touched (
    session     INTEGER PRIMARY KEY,
    files       BLOB NOT NULL           -- packed: path and number of calls by kind
) STRICT;
