-- The journal: the contents of the agents' files, kept after those files are deleted.
-- A telling is a recording: one source's copy of a session. Keys of sessions and recordings are
-- hashes of their names, the same on every machine.

-- Properties of the whole journal: its identity, the generation of its last change.
CREATE TABLE meta (
    name    TEXT PRIMARY KEY,
    value   ANY NOT NULL
) WITHOUT ROWID, STRICT;

-- A file, database or directory of an agent, and the result of reading it.
CREATE TABLE sources (
    id          INTEGER PRIMARY KEY,
    agent       TEXT NOT NULL,
    path        ANY NOT NULL,           -- text, or bytes if it is not UTF-8
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL,
    present     INTEGER NOT NULL DEFAULT 1,
    home        TEXT NOT NULL DEFAULT 'local', -- or wsl, windows, remote, import
    host        TEXT,
    records     INTEGER NOT NULL DEFAULT 0, -- parsed or kept raw
    raw         INTEGER NOT NULL DEFAULT 0, -- kept raw because of an unknown type
    skipped     TEXT NOT NULL DEFAULT '{}', -- reason -> count
    error       TEXT,                   -- the reason if it could not be read at all
    UNIQUE (agent, path)
) STRICT;

-- The position up to which a source has been read. A separate table keeps scans of all sources
-- small.
CREATE TABLE checkpoints (
    source      INTEGER PRIMARY KEY REFERENCES sources (id),
    read_to     INTEGER NOT NULL,
    guard       INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    state       BLOB NOT NULL
) STRICT;

-- Recordings: one source's copy of one session. The most complete recording is shown.
CREATE TABLE tellings (
    key         INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (id),
    session     INTEGER NOT NULL,
    account     TEXT NOT NULL,          -- metadata of the session in this source, JSON
    messages    INTEGER NOT NULL,
    hidden      INTEGER NOT NULL DEFAULT 0 -- 1 if another recording is shown, or none
) STRICT;
CREATE INDEX tellings_hidden ON tellings (key) WHERE hidden = 1;
CREATE INDEX tellings_by_session ON tellings (session);
CREATE INDEX tellings_by_source ON tellings (source);

-- Chunks of messages: JSON lines, compressed, with the facts derived from them.
CREATE TABLE chunks (
    telling     INTEGER NOT NULL,       -- its row is written when its source has been read
    first       INTEGER NOT NULL,       -- position of its first message
    count       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,       -- before compression
    hashes      BLOB NOT NULL,          -- one per message, to detect changes
    uuids       BLOB NOT NULL,          -- hashes of the messages' uuids
    facts       BLOB NOT NULL,
    body        BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_by_place ON chunks (telling, first);

-- Images, deduplicated by hash.
CREATE TABLE images (
    hash        TEXT PRIMARY KEY,
    media_type  TEXT,
    data        BLOB NOT NULL
) STRICT;

-- Sessions as they are listed: the shown recording, and data derived from the messages.
CREATE TABLE sessions (
    key             INTEGER PRIMARY KEY,
    agent           TEXT NOT NULL,
    native          TEXT NOT NULL,
    kind            INTEGER NOT NULL,   -- 0 a person's, 1 a sub-agent's, 2 a working copy
    shown           INTEGER NOT NULL,   -- 0 without a conversation, or for a working copy
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
    telling         INTEGER NOT NULL,   -- the shown recording
    generation      INTEGER NOT NULL    -- of the last change
) STRICT;
CREATE INDEX sessions_by_time ON sessions (shown, kind, ended_at);
CREATE INDEX sessions_by_project ON sessions (project_path);
CREATE INDEX sessions_by_native ON sessions (native);
CREATE INDEX sessions_by_parent ON sessions (parent, telling, shown);
CREATE INDEX sessions_by_generation ON sessions (generation);

-- Model calls as sessions record them. Of all records of a call exactly one is counted, the most
-- complete; its owner is the session that made the call first. A sum over calls that are also
-- recorded individually is not counted, nor is a second-hand record of a call if its session
-- records calls itself.
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
                                        -- equal to `at`: one call, recorded second-hand
    repeats         INTEGER NOT NULL DEFAULT 0, -- further records of the call in this recording
    counted         INTEGER NOT NULL DEFAULT 1,
    owner           INTEGER NOT NULL,
    PRIMARY KEY (identity, telling)
) WITHOUT ROWID, STRICT;
CREATE UNIQUE INDEX usage_counted_once ON usage (identity) WHERE counted = 1;
CREATE INDEX usage_by_telling ON usage (telling, position);
CREATE INDEX usage_by_owner ON usage (owner) WHERE counted = 1;
CREATE INDEX usage_sums ON usage (session) WHERE since IS NOT NULL;

-- Activity and usage of a session by quarter hour, packed so that totals over years are fast.
CREATE TABLE activity (
    session     INTEGER PRIMARY KEY,
    done        BLOB NOT NULL,          -- messages, prompts, active time, tools, failures
    files       BLOB NOT NULL           -- files changed
) STRICT;
CREATE TABLE spending (
    session     INTEGER PRIMARY KEY,    -- the owner of the calls
    calls       BLOB NOT NULL           -- counted calls by quarter hour and model
) STRICT;

-- Summaries that name the last message they cover, in whichever session that message is.
CREATE TABLE summaries (
    leaf        INTEGER NOT NULL,       -- hash of the message's uuid
    agent       TEXT NOT NULL,
    text        TEXT NOT NULL,
    PRIMARY KEY (leaf, text)
) WITHOUT ROWID, STRICT;
