-- Compression dictionaries. A chunk that names a dictionary needs it to be decompressed.
CREATE TABLE dictionaries (
    id          INTEGER PRIMARY KEY,    -- as named in the chunks
    learnt      INTEGER NOT NULL,       -- the generation after which it was trained
    sum         INTEGER NOT NULL,       -- checksum of the bytes, which many chunks need
    bytes       BLOB NOT NULL,
    spare       BLOB NOT NULL           -- a second copy of the bytes
) STRICT;

-- Names of models, deduplicated.
CREATE TABLE models (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE
) STRICT;

-- Model calls in reading order. Sorted by identity, which is a hash, every new call would be
-- written to another page.
CREATE TABLE calls (
    identity        BLOB NOT NULL,
    session         INTEGER NOT NULL,
    telling         INTEGER NOT NULL,
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
    owner           INTEGER NOT NULL
) STRICT;
INSERT INTO models (name) SELECT DISTINCT model FROM usage WHERE model IS NOT NULL;
INSERT INTO calls SELECT identity, session, telling, position, at, models.id, input, output,
    cache_read, cache_creation, cache_creation_1h, reasoning, cost_micros, since, repeats, counted,
    owner FROM usage LEFT JOIN models ON models.name = usage.model ORDER BY telling, position;
DROP TABLE usage;
ALTER TABLE calls RENAME TO usage;
CREATE UNIQUE INDEX usage_once ON usage (identity, telling);
CREATE UNIQUE INDEX usage_counted_once ON usage (identity) WHERE counted = 1;
CREATE INDEX usage_by_telling ON usage (telling, position);
CREATE INDEX usage_by_owner ON usage (owner) WHERE counted = 1;
CREATE INDEX usage_sums ON usage (session) WHERE since IS NOT NULL;
