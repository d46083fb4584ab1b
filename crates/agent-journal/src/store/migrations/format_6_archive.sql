-- Format 6: the archive, which keeps the bytes of sources.

-- A file that was read, by a hash of its path.
CREATE TABLE IF NOT EXISTS archive_files (
    id          INTEGER PRIMARY KEY,
    path        ANY NOT NULL            -- text, or bytes if it is not UTF-8
) STRICT;

-- The files that a source was read from.
CREATE TABLE IF NOT EXISTS archive_sources (
    source      INTEGER NOT NULL,
    file        INTEGER NOT NULL,
    PRIMARY KEY (source, file)
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS archive_sources_by_file ON archive_sources (file);

-- The state of a source when all its files were archived last.
CREATE TABLE IF NOT EXISTS archive_reads (
    source      INTEGER PRIMARY KEY,
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL
) STRICT;

-- Versions of a file. A file that only grows keeps its version.
CREATE TABLE IF NOT EXISTS archive_versions (
    id          INTEGER PRIMARY KEY,
    file        INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    cut         INTEGER NOT NULL,       -- end of the last chunk that ended because of its content
    guard       INTEGER NOT NULL,       -- hash of the last bytes
    size        INTEGER NOT NULL,
    modified    INTEGER NOT NULL,
    inode       INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS archive_versions_by_file ON archive_versions (file);

-- The times at which a version was seen, each with its length then.
CREATE TABLE IF NOT EXISTS archive_states (
    version     INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL,
    length      INTEGER NOT NULL,
    PRIMARY KEY (version, seen_at, length)
) WITHOUT ROWID, STRICT;

-- The chunks that a version consists of.
CREATE TABLE IF NOT EXISTS archive_parts (
    version     INTEGER NOT NULL,
    start       INTEGER NOT NULL,       -- offset in the file
    chunk       INTEGER NOT NULL,
    PRIMARY KEY (version, start)
) WITHOUT ROWID, STRICT;
CREATE INDEX IF NOT EXISTS archive_parts_by_chunk ON archive_parts (chunk);

-- Pieces of files, each stored once.
CREATE TABLE IF NOT EXISTS archive_chunks (
    id          INTEGER PRIMARY KEY,
    hash        BLOB NOT NULL UNIQUE,   -- seeded with the identity of the journal
    frame       INTEGER NOT NULL,
    start       INTEGER NOT NULL,       -- offset in the decompressed frame
    bytes       INTEGER NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS archive_chunks_by_frame ON archive_chunks (frame);

-- Chunks that were compressed together, in a pack or, if they are few bytes, here.
CREATE TABLE IF NOT EXISTS archive_frames (
    id          INTEGER PRIMARY KEY,
    pack        INTEGER,                -- number of the pack
    start       INTEGER NOT NULL,       -- offset in the pack
    bytes       INTEGER NOT NULL,       -- compressed
    raw         INTEGER NOT NULL,       -- decompressed
    sum         INTEGER NOT NULL,       -- checksum of the compressed bytes
    body        BLOB                    -- the compressed bytes, unless they are in a pack
) STRICT;
CREATE INDEX IF NOT EXISTS archive_frames_by_pack ON archive_frames (pack, start);
