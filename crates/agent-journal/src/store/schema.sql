-- The journal: the contents of the agents' files, kept after those files are deleted.
--
-- This file shows all tables of the newest format. New journals are created from it. `migrations/`
-- converts journals of earlier formats. Both give the same tables, with the columns in the same
-- order. Keys of sessions and recordings are hashes of their names, the same on every machine.

-- Properties of the whole journal: its identity, the generation of its last change, and whether all
-- sessions were compared with each other (`lineages`).
CREATE TABLE meta (
    name    TEXT PRIMARY KEY,
    value   ANY NOT NULL
) WITHOUT ROWID, STRICT;
INSERT INTO meta VALUES ('lineages', 0);

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
    -- The reader version that read the source last. A source of another version is read again once.
    -- If it no longer exists or was imported, its facts are derived again from the stored messages.
    reader      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (agent, path)
) STRICT;
CREATE INDEX sources_by_reader ON sources (reader);

-- The position up to which a source has been read. A separate table keeps scans of all sources
-- small.
CREATE TABLE checkpoints (
    source      INTEGER PRIMARY KEY REFERENCES sources (id),
    read_to     INTEGER NOT NULL,
    guard       INTEGER NOT NULL,
    messages    INTEGER NOT NULL,
    state       BLOB NOT NULL,
    -- The end of the source when it was read, behind the position at which a later read continues.
    seen_to     INTEGER NOT NULL DEFAULT 0,
    seen_guard  INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Recordings: one source's copy of one session. The most complete recording is shown. If several
-- recordings of a session complete each other, another one combines them.
CREATE TABLE recordings (
    key         INTEGER PRIMARY KEY,
    source      INTEGER NOT NULL REFERENCES sources (id),
    session     INTEGER NOT NULL,
    metadata    TEXT NOT NULL,          -- of the session in this source, JSON
    messages    INTEGER NOT NULL,
    hidden      INTEGER NOT NULL DEFAULT 0, -- 1 if another recording is shown, or none
    richness    INTEGER NOT NULL DEFAULT 0, -- sum of the features it has
    combined    INTEGER NOT NULL DEFAULT 0, -- 1 if made of the others
    gone        INTEGER NOT NULL DEFAULT 0  -- 1 if its source exists, but no longer contains it
) STRICT;
CREATE INDEX recordings_hidden ON recordings (key) WHERE hidden = 1;
CREATE INDEX recordings_by_session ON recordings (session);
CREATE INDEX recordings_by_source ON recordings (source);
CREATE INDEX recordings_combined ON recordings (key) WHERE combined = 1;

-- Recordings without any message that the leading recording lacks.
CREATE TABLE coverage (
    recording   INTEGER PRIMARY KEY,
    messages    INTEGER NOT NULL,       -- number of messages that were compared
    leader      INTEGER NOT NULL
) STRICT;
CREATE INDEX coverage_by_leader ON coverage (leader);

-- Fingerprints of recordings, for sources that report changes of a session without being read in
-- full, with the record counts of the last read.
CREATE TABLE fingerprints (
    recording   INTEGER PRIMARY KEY,
    fingerprint INTEGER NOT NULL,
    records     INTEGER NOT NULL,
    raw         INTEGER NOT NULL,
    skipped     TEXT NOT NULL           -- reason -> count, JSON
) STRICT;

-- Chunks of messages: JSON lines, compressed, with the facts derived from them.
CREATE TABLE chunks (
    recording   INTEGER NOT NULL,       -- its row is written when its source has been read
    first       INTEGER NOT NULL,       -- position of its first message
    count       INTEGER NOT NULL,
    bytes       INTEGER NOT NULL,       -- before compression
    hashes      BLOB NOT NULL,          -- one per message, to detect changes
    uuids       BLOB NOT NULL,          -- hashes of the messages' uuids
    facts       BLOB NOT NULL,
    body        BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_by_place ON chunks (recording, first);

-- Compression dictionaries. A chunk that names a dictionary needs it to be decompressed.
CREATE TABLE dictionaries (
    id          INTEGER PRIMARY KEY,    -- as named in the chunks
    learnt      INTEGER NOT NULL,       -- the generation after which it was trained
    sum         INTEGER NOT NULL,       -- checksum of the bytes, which many chunks need
    bytes       BLOB NOT NULL,
    spare       BLOB NOT NULL           -- a second copy of the bytes
) STRICT;

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
    recording       INTEGER NOT NULL,   -- the shown recording
    generation      INTEGER NOT NULL,   -- of the last change
    repository      TEXT,               -- `owner/name`, or its root directory
    branches        TEXT NOT NULL DEFAULT '[]', -- all branches if there are several, JSON
    directories     TEXT NOT NULL DEFAULT '[]', -- all directories if there are several, JSON
    summary         TEXT                -- as recorded
) STRICT;
CREATE INDEX sessions_by_time ON sessions (shown, kind, ended_at);
CREATE INDEX sessions_by_project ON sessions (project_path);
CREATE INDEX sessions_by_native ON sessions (native);
CREATE INDEX sessions_by_parent ON sessions (parent, recording, shown);
CREATE INDEX sessions_by_generation ON sessions (generation);
CREATE INDEX sessions_without_directory ON sessions (key) WHERE cwd IS NULL;

-- Messages that identify sessions which begin with messages of another one: the first message and
-- the first prompt of each recording, and every summary in it.
CREATE TABLE anchors (
    uuid        BLOB NOT NULL,          -- hash of the message's uuid
    recording   INTEGER NOT NULL,
    position    INTEGER NOT NULL,
    PRIMARY KEY (uuid, recording)
) WITHOUT ROWID, STRICT;
CREATE INDEX anchors_by_recording ON anchors (recording);

-- Sessions that begin with messages of another one: forks and resumed copies. The shared messages
-- count for the session that recorded them first.
CREATE TABLE lineages (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,       -- the session that this one continues
    shared      INTEGER NOT NULL        -- number of leading messages of the other session
) STRICT;
CREATE INDEX lineages_by_origin ON lineages (origin);

-- Sessions whose format declares that they begin with messages of another one. They are not
-- compared.
CREATE TABLE continuations (
    session     INTEGER PRIMARY KEY,
    origin      INTEGER NOT NULL,
    shared      INTEGER NOT NULL        -- number of leading messages
) STRICT;
CREATE INDEX continuations_by_origin ON continuations (origin);

-- Summaries that name the last message they cover, in whichever session that message is. A summary
-- whose message no session has belongs to the session whose file contains the summary.
CREATE TABLE summaries (
    leaf        INTEGER NOT NULL,       -- hash of the message's uuid
    agent       TEXT NOT NULL,
    text        TEXT NOT NULL,
    holder      INTEGER,                -- the session whose file contains it
    found       INTEGER NOT NULL DEFAULT 0, -- 1 if a session has the message
    PRIMARY KEY (leaf, text)
) WITHOUT ROWID, STRICT;
CREATE INDEX summaries_by_holder ON summaries (holder) WHERE found = 0;

-- Names of models, deduplicated.
CREATE TABLE models (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE
) STRICT;

-- Model calls as sessions record them, in reading order. Sorted by identity, which is a hash, every
-- new call would be written to another page. Of all records of a call exactly one is counted, the
-- most complete; its owner is the session that made the call first. A sum over calls that are also
-- recorded individually is not counted, nor is a second-hand record of a call if its session
-- records calls itself.
CREATE TABLE usage (
    identity        BLOB NOT NULL,
    session         INTEGER NOT NULL,
    recording       INTEGER NOT NULL,
    position        INTEGER NOT NULL,
    at              INTEGER,
    model           INTEGER REFERENCES models (id),
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
    unrecorded      INTEGER NOT NULL DEFAULT 0 -- 1 from a bill: a sum over calls of no message
) STRICT;
CREATE UNIQUE INDEX usage_once ON usage (identity, recording);
CREATE UNIQUE INDEX usage_counted_once ON usage (identity) WHERE counted = 1;
CREATE INDEX usage_by_recording ON usage (recording, position);
CREATE INDEX usage_by_owner ON usage (owner) WHERE counted = 1;
CREATE INDEX usage_sums ON usage (session) WHERE since IS NOT NULL;

-- The bill that an agent keeps of a session.
CREATE TABLE bills (
    session     INTEGER PRIMARY KEY,
    states      TEXT NOT NULL,          -- JSON, in order of time
    since       INTEGER,                -- start time of the bill
    left_aside  INTEGER NOT NULL DEFAULT 0 -- states that list less than the messages record
) STRICT;

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

-- Files that a session touched: viewed, edited, created, or listed by its format.
CREATE TABLE touched (
    session     INTEGER PRIMARY KEY,
    files       BLOB NOT NULL           -- packed: path and number of calls by kind
) STRICT;

-- The archive: the bytes of the files that sources were read from. Most of them are in packs beside
-- this file; these tables are their catalogue.

-- A file that was read, by a hash of its path.
CREATE TABLE archive_files (
    id          INTEGER PRIMARY KEY,
    path        ANY NOT NULL            -- text, or bytes if it is not UTF-8
) STRICT;

-- The files that a source was read from.
CREATE TABLE archive_sources (
    source      INTEGER NOT NULL,
    file        INTEGER NOT NULL,
    PRIMARY KEY (source, file)
) WITHOUT ROWID, STRICT;
CREATE INDEX archive_sources_by_file ON archive_sources (file);

-- The state of a source when all its files were archived last.
CREATE TABLE archive_reads (
    source      INTEGER PRIMARY KEY,
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL
) STRICT;

-- Versions of a file. A file that only grows keeps its version.
CREATE TABLE archive_versions (
    id          INTEGER PRIMARY KEY,
    file        INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    cut         INTEGER NOT NULL,       -- end of the last chunk that ended because of its content
    guard       INTEGER NOT NULL,       -- hash of the last bytes
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL
) STRICT;
CREATE INDEX archive_versions_by_file ON archive_versions (file);

-- The times at which a version was seen, each with its length then.
CREATE TABLE archive_states (
    version     INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    PRIMARY KEY (version, seen_at, length)
) WITHOUT ROWID, STRICT;

-- The chunks that a version consists of.
CREATE TABLE archive_parts (
    version     INTEGER NOT NULL,
    start       INTEGER NOT NULL,       -- offset in the file
    chunk       INTEGER NOT NULL,
    PRIMARY KEY (version, start)
) WITHOUT ROWID, STRICT;
CREATE INDEX archive_parts_by_chunk ON archive_parts (chunk);

-- Pieces of files, each stored once.
CREATE TABLE archive_chunks (
    id          INTEGER PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,   -- seeded with the identity of the journal
    frame       INTEGER NOT NULL,
    start       INTEGER NOT NULL,       -- offset in the decompressed frame
    bytes       INTEGER NOT NULL
) STRICT;
CREATE INDEX archive_chunks_by_frame ON archive_chunks (frame);

-- Chunks that were compressed together, in a pack or, if they are few bytes, here.
CREATE TABLE archive_frames (
    id          INTEGER PRIMARY KEY,
    pack        INTEGER,                -- number of the pack
    start       INTEGER NOT NULL,       -- offset in the pack
    bytes       INTEGER NOT NULL,       -- compressed
    raw         INTEGER NOT NULL,       -- decompressed
    sum         INTEGER NOT NULL,       -- checksum of the compressed bytes
    body        BLOB                    -- the compressed bytes, unless they are in a pack
) STRICT;
CREATE INDEX archive_frames_by_pack ON archive_frames (pack, start);
