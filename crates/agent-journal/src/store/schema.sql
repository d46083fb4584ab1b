-- The journal: what was read from the agents' files, kept after those files are gone.
-- Keys of sessions and tellings are hashes of their names, the same on every machine.

-- What holds for the journal as a whole: its identity, the generation of its last change.
CREATE TABLE meta (
    name    TEXT PRIMARY KEY,
    value   ANY NOT NULL
) WITHOUT ROWID, STRICT;

-- A file, database or directory of an agent, and what came of reading it.
CREATE TABLE sources (
    id          INTEGER PRIMARY KEY,
    agent       TEXT NOT NULL,
    path        ANY NOT NULL,           -- text, or bytes when it is not UTF-8
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL,
    present     INTEGER NOT NULL DEFAULT 1,
    home        TEXT NOT NULL DEFAULT 'local', -- or wsl, windows, remote, import
    host        TEXT,
    records     INTEGER NOT NULL DEFAULT 0, -- understood
    raw         INTEGER NOT NULL DEFAULT 0, -- kept without being understood
    skipped     TEXT NOT NULL DEFAULT '{}', -- reason -> count
    error       TEXT,                   -- why it could not be read at all
    UNIQUE (agent, path)
) STRICT;

-- How far a source has been read. Apart, so that a look at all sources stays small.
CREATE TABLE checkpoints (
    source      INTEGER PRIMARY KEY REFERENCES sources (id),
    read_to     INTEGER NOT NULL,
    guard       INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    state       BLOB NOT NULL
) STRICT;

-- What one source tells of one session. The fullest telling of a session is the one shown.
CREATE TABLE tellings (
    key         INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (id),
    session     INTEGER NOT NULL,
    account     TEXT NOT NULL,          -- the session as the source describes it, JSON
    messages    INTEGER NOT NULL,
    hidden      INTEGER NOT NULL DEFAULT 0 -- another one is shown, or none
) STRICT;
CREATE INDEX tellings_hidden ON tellings (key) WHERE hidden = 1;
CREATE INDEX tellings_by_session ON tellings (session);
CREATE INDEX tellings_by_source ON tellings (source);

-- A run of messages: JSON lines, compressed, with what can be worked out from them.
CREATE TABLE chunks (
    telling     INTEGER NOT NULL,       -- whose row follows at the end of its source
    first       INTEGER NOT NULL,       -- position of its first message
    count       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,       -- before compression
    hashes      BLOB NOT NULL,          -- one per message, to find what changed
    uuids       BLOB NOT NULL,          -- hashes of the messages' uuids
    facts       BLOB NOT NULL,
    body        BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_by_place ON chunks (telling, first);

-- Pictures, once each.
CREATE TABLE images (
    hash        TEXT PRIMARY KEY,
    media_type  TEXT,
    data        BLOB NOT NULL
) STRICT;

-- A session as it is listed: the best of its tellings, and what follows from its messages.
CREATE TABLE sessions (
    key             INTEGER PRIMARY KEY,
    agent           TEXT NOT NULL,
    native          TEXT NOT NULL,
    kind            INTEGER NOT NULL,   -- 0 a person's, 1 a sub-agent's, 2 a working copy
    shown           INTEGER NOT NULL,   -- 0 when there is no conversation, or only a copy of one
    parent          INTEGER,
    parent_native   TEXT,
    title           TEXT NOT NULL,
    title_source    TEXT NOT NULL,
    project         TEXT,
    project_path    TEXT,
    cwd             TEXT,
    branch          TEXT,
    agent_version   TEXT,
    started_at      INTEGER,
    ended_at        INTEGER,
    active_s        INTEGER NOT NULL,
    prompts         INTEGER NOT NULL,
    answers         INTEGER NOT NULL,
    tool_calls      INTEGER NOT NULL,
    tool_results    INTEGER NOT NULL,
    tool_errors     INTEGER NOT NULL,
    messages        INTEGER NOT NULL,
    models          TEXT NOT NULL,      -- JSON, the most used first
    input           INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    cache_read      INTEGER NOT NULL,
    cache_creation  INTEGER NOT NULL,
    reasoning       INTEGER,
    failed          INTEGER NOT NULL,
    refs            TEXT NOT NULL,      -- JSON
    telling         INTEGER NOT NULL,   -- the one shown
    generation      INTEGER NOT NULL    -- of the last change
) STRICT;
CREATE INDEX sessions_by_time ON sessions (shown, kind, ended_at);
CREATE INDEX sessions_by_project ON sessions (project_path);
CREATE INDEX sessions_by_native ON sessions (native);
CREATE INDEX sessions_by_parent ON sessions (parent, telling, shown);
CREATE INDEX sessions_by_generation ON sessions (generation);

-- One call of a model as one session records it. Of all records of a call exactly one is counted,
-- the fullest; its owner is the session that made the call first. A sum over calls that are also
-- recorded one by one is not counted at all, nor is a call that was told second-hand where its
-- session records calls itself.
CREATE TABLE usage (
    identity        BLOB NOT NULL,
    session         INTEGER NOT NULL,
    telling         INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    at              INTEGER,
    model           TEXT,
    input           INTEGER NOT NULL,
    output          INTEGER NOT NULL,
    cache_read      INTEGER NOT NULL,
    cache_creation  INTEGER NOT NULL,
    cache_creation_1h INTEGER NOT NULL,
    reasoning       INTEGER,
    cost_micros     INTEGER,            -- as the agent recorded it
    since           INTEGER,            -- set on a sum over the calls since then;
                                        -- equal to `at`: one call, told second-hand
    repeats         INTEGER NOT NULL DEFAULT 0, -- further records of the call in this telling
    counted         INTEGER NOT NULL DEFAULT 1,
    owner           INTEGER NOT NULL,
    PRIMARY KEY (identity, telling)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX usage_counted_once ON usage (identity) WHERE counted = 1;
CREATE INDEX usage_by_telling ON usage (telling, position);
CREATE INDEX usage_by_owner ON usage (owner) WHERE counted = 1;
CREATE INDEX usage_sums ON usage (session) WHERE since IS NOT NULL;

-- What a session did and spent, by the quarter hour, packed so that sums over years are quick.
CREATE TABLE activity (
    session     INTEGER PRIMARY KEY,
    done        BLOB NOT NULL,          -- messages, prompts, active time, tools, failures
    files       BLOB NOT NULL           -- files changed
) STRICT;
CREATE TABLE spending (
    session     INTEGER PRIMARY KEY,    -- the owner
    calls       BLOB NOT NULL           -- counted calls by quarter hour and model
) STRICT;

-- Summaries that name the last message they cover, wherever that message is.
CREATE TABLE summaries (
    leaf        INTEGER NOT NULL,       -- hash of the message's uuid
    agent       TEXT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (leaf, text)
) WITHOUT ROWID, STRICT;
