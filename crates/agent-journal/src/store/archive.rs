//! The catalogue of the archive: files, their versions, and where the chunks of these are stored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use rusqlite::{named_params, params};
use xxhash_rust::xxh3::xxh3_64;

use super::Store;
use super::database::OptionalRow;
use super::sources::StoredPath;
use super::write::{PathValue, Writer};
use crate::error::Result;
use crate::model::{Stamp, Timestamp};

/// The hash that names a chunk.
pub(crate) type ChunkHash = u128;

/// The latest version of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LatestVersion {
    pub(crate) id: i64,
    pub(crate) length: u64,
    /// End of the last chunk that ended because of its content.
    pub(crate) cut: u64,
    /// Hash of the last bytes.
    pub(crate) guard: u64,
    pub(crate) stamp: Stamp,
}

/// A file at one point in time.
#[derive(Clone, Debug)]
pub(crate) struct ArchivedFile {
    pub(crate) path: PathBuf,
    pub(crate) version: i64,
    pub(crate) length: u64,
    pub(crate) seen_at: Timestamp,
}

/// A piece of a version: where it is in the file, and where it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoredPart {
    /// Offset in the file.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
    pub(crate) frame: i64,
    /// Offset in the decompressed frame.
    pub(crate) frame_start: u64,
}

/// The place of a frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameRow {
    pub(crate) id: i64,
    pub(crate) place: FramePlace,
    pub(crate) raw: u64,
    pub(crate) sum: u64,
}

/// The place of the compressed bytes of a frame.
#[derive(Clone, Debug)]
pub(crate) enum FramePlace {
    /// In a pack.
    Pack { number: u64, start: u64, bytes: u64 },
    /// In the database.
    Row(Vec<u8>),
}

/// A chunk in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameChunk {
    pub(crate) hash: ChunkHash,
    /// Offset in the decompressed frame.
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// A version to write.
#[derive(Debug)]
pub(crate) struct VersionRow {
    pub(crate) source: i64,
    pub(crate) path: PathBuf,
    /// The version that grew; `None` for a new version.
    pub(crate) grown: Option<i64>,
    /// Offset from which on the parts of a version that grew are replaced.
    pub(crate) from: u64,
    /// Offset and hash of each part.
    pub(crate) parts: Vec<PartRow>,
    pub(crate) length: u64,
    pub(crate) cut: u64,
    pub(crate) guard: u64,
    pub(crate) stamp: Stamp,
    pub(crate) seen_at: Timestamp,
}

/// A part to write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRow {
    pub(crate) start: u64,
    pub(crate) hash: ChunkHash,
}

/// The sizes of the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ArchiveTotals {
    /// Number of files.
    pub files: u64,
    /// Number of versions of these files.
    pub versions: u64,
    /// Size of all different chunks in bytes, before compression.
    pub content_bytes: u64,
    /// Size of these chunks as they are stored, in bytes.
    pub stored_bytes: u64,
}

/// Returns the key of a file in the catalogue.
fn file_key(path: &Path) -> i64 {
    (xxh3_64(path.as_os_str().as_encoded_bytes()) >> 1) as i64
}

fn hash_bytes(hash: ChunkHash) -> [u8; 16] {
    hash.to_be_bytes()
}

fn frame_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<FrameRow> {
    let place = match row.get::<_, Option<i64>>("pack")? {
        Some(number) => FramePlace::Pack {
            number: number as u64,
            start: row.get::<_, i64>("start")? as u64,
            bytes: row.get::<_, i64>("bytes")? as u64,
        },
        None => FramePlace::Row(row.get::<_, Option<Vec<u8>>>("body")?.unwrap_or_default()),
    };
    Ok(FrameRow {
        id: row.get("id")?,
        place,
        raw: row.get::<_, i64>("raw")? as u64,
        sum: row.get::<_, i64>("sum")? as u64,
    })
}

impl Store {
    /// Returns the latest version of a file.
    pub(crate) fn latest_version(&self, path: &Path) -> Result<Option<LatestVersion>> {
        let sql = "SELECT id, length, cut, guard, size, modified, inode FROM archive_versions
                   WHERE file = ?1 ORDER BY id DESC LIMIT 1";
        let row = self.database.query_row(sql, [file_key(path)], |row| {
            Ok(LatestVersion {
                id: row.get("id")?,
                length: row.get::<_, i64>("length")? as u64,
                cut: row.get::<_, i64>("cut")? as u64,
                guard: row.get::<_, i64>("guard")? as u64,
                stamp: Stamp {
                    size: row.get::<_, i64>("size")? as u64,
                    modified: row.get("modified")?,
                    inode: row.get::<_, i64>("inode")? as u64,
                },
            })
        });
        row.optional()
    }

    /// Returns whether the archive has a chunk.
    pub(crate) fn has_chunk(&self, hash: ChunkHash) -> Result<bool> {
        let sql = "SELECT 1 FROM archive_chunks WHERE hash = ?1";
        self.database.prepare_cached(sql)?.exists([hash_bytes(hash)])
    }

    /// Returns whether the archive has no chunks.
    pub(crate) fn is_archive_empty(&self) -> Result<bool> {
        Ok(!self.database.prepare_cached("SELECT 1 FROM archive_chunks LIMIT 1")?.exists([])?)
    }

    /// Returns the number of the last pack, and the end of the last frame in it.
    pub(crate) fn last_pack_end(&self) -> Result<Option<(u64, u64)>> {
        let sql = "SELECT pack, start + bytes AS pack_end FROM archive_frames
                   WHERE pack IS NOT NULL ORDER BY pack DESC, start DESC LIMIT 1";
        let row = self.database.query_row(sql, [], |row| {
            Ok((row.get::<_, i64>("pack")? as u64, row.get::<_, i64>("pack_end")? as u64))
        });
        row.optional()
    }

    /// Sums up the archive.
    pub(crate) fn archive_totals(&self) -> Result<ArchiveTotals> {
        let sql = "SELECT (SELECT count(*) FROM archive_files) AS files,
                   (SELECT count(*) FROM archive_versions) AS versions,
                   coalesce(sum(raw), 0) AS content, coalesce(sum(bytes), 0) AS stored
                   FROM archive_frames";
        self.database.query_row(sql, [], |row| {
            let number = |name: &str| row.get::<_, i64>(name).map(|number| number as u64);
            Ok(ArchiveTotals {
                files: number("files")?,
                versions: number("versions")?,
                content_bytes: number("content")?,
                stored_bytes: number("stored")?,
            })
        })
    }

    /// Lists the files that a source was read from, as they were at a time, or as last seen.
    pub(crate) fn archived_files(
        &self,
        source: i64,
        at: Option<Timestamp>,
    ) -> Result<Vec<ArchivedFile>> {
        let sql = "SELECT file, path FROM archive_sources
                   JOIN archive_files ON archive_files.id = file WHERE source = ?1 ORDER BY path";
        let files: Vec<(i64, PathBuf)> = self.database.rows(sql, [source], |row| {
            Ok((row.get("file")?, row.get::<_, StoredPath>("path")?.0))
        })?;
        let sql = "SELECT version, seen_at, archive_states.length AS length FROM archive_versions
                   JOIN archive_states ON version = archive_versions.id
                   WHERE file = ?1 AND seen_at <= ?2
                   ORDER BY seen_at DESC, version DESC, archive_states.length DESC LIMIT 1";
        let at = at.map_or(i64::MAX, Timestamp::as_millis);
        let mut found = Vec::new();
        for (file, path) in files {
            let row = self.database.query_row(sql, [file, at], |row| {
                Ok(ArchivedFile {
                    path,
                    version: row.get("version")?,
                    length: row.get::<_, i64>("length")? as u64,
                    seen_at: Timestamp::from_millis(row.get("seen_at")?).unwrap_or_default(),
                })
            });
            found.extend(row.optional()?);
        }
        Ok(found)
    }

    /// Lists the parts of a version, in the order of the file.
    pub(crate) fn stored_parts(&self, version: i64) -> Result<Vec<StoredPart>> {
        let sql = "SELECT archive_parts.start AS start, bytes, frame,
                   archive_chunks.start AS frame_start FROM archive_parts
                   JOIN archive_chunks ON archive_chunks.id = chunk
                   WHERE version = ?1 ORDER BY archive_parts.start";
        self.database.rows(sql, [version], |row| {
            Ok(StoredPart {
                start: row.get::<_, i64>("start")? as u64,
                bytes: row.get::<_, i64>("bytes")? as u64,
                frame: row.get("frame")?,
                frame_start: row.get::<_, i64>("frame_start")? as u64,
            })
        })
    }

    /// Reads the place of a frame.
    pub(crate) fn frame(&self, id: i64) -> Result<Option<FrameRow>> {
        let sql = "SELECT id, pack, start, bytes, raw, sum, body FROM archive_frames WHERE id = ?1";
        self.database.query_row(sql, [id], frame_row).optional()
    }

    /// Lists the ids of all frames.
    pub(crate) fn frame_ids(&self) -> Result<Vec<i64>> {
        self.database.values("SELECT id FROM archive_frames ORDER BY pack, start, id", [])
    }

    /// Lists the chunks of a frame.
    pub(crate) fn frame_chunks(&self, frame: i64) -> Result<Vec<FrameChunk>> {
        let sql = "SELECT hash, start, bytes FROM archive_chunks WHERE frame = ?1 ORDER BY start";
        self.database.rows(sql, [frame], |row| {
            Ok(FrameChunk {
                hash: ChunkHash::from_be_bytes(row.get("hash")?),
                start: row.get::<_, i64>("start")? as u64,
                bytes: row.get::<_, i64>("bytes")? as u64,
            })
        })
    }

    /// Lists the numbers of the packs.
    pub(crate) fn pack_numbers(&self) -> Result<BTreeSet<u64>> {
        let sql = "SELECT DISTINCT pack FROM archive_frames WHERE pack IS NOT NULL";
        self.database.rows(sql, [], |row| row.get::<_, i64>("pack").map(|number| number as u64))
    }

    /// Lists the frames that contain bytes of no chunk.
    pub(crate) fn frames_with_gaps(&self) -> Result<Vec<FrameRow>> {
        let sql = "SELECT id, pack, start, bytes, raw, sum, body FROM archive_frames
                   WHERE raw != (SELECT coalesce(sum(archive_chunks.bytes), 0) FROM archive_chunks
                       WHERE frame = archive_frames.id)";
        self.database.rows(sql, [], frame_row)
    }

    /// Lists the frames in a pack.
    pub(crate) fn frames_in_pack(&self, number: u64) -> Result<Vec<FrameRow>> {
        let sql = "SELECT id, pack, start, bytes, raw, sum, body FROM archive_frames
                   WHERE pack = ?1 ORDER BY start";
        self.database.rows(sql, [number as i64], frame_row)
    }

    /// Lists the paths of the files with a part in a frame.
    pub(crate) fn files_with_frame(&self, frame: i64) -> Result<Vec<PathBuf>> {
        let sql = "SELECT DISTINCT path FROM archive_chunks
                   JOIN archive_parts ON chunk = archive_chunks.id
                   JOIN archive_versions ON archive_versions.id = version
                   JOIN archive_files ON archive_files.id = file WHERE frame = ?1 ORDER BY path";
        self.database.rows(sql, [frame], |row| Ok(row.get::<_, StoredPath>("path")?.0))
    }

    /// Lists the paths of the files whose latest version lacks bytes.
    pub(crate) fn incomplete_files(&self) -> Result<Vec<PathBuf>> {
        let sql = "SELECT path FROM archive_versions JOIN archive_files ON archive_files.id = file
                   WHERE length != (SELECT coalesce(sum(bytes), 0) FROM archive_parts
                       JOIN archive_chunks ON archive_chunks.id = chunk
                       WHERE version = archive_versions.id) ORDER BY path";
        self.database.rows(sql, [], |row| Ok(row.get::<_, StoredPath>("path")?.0))
    }

    /// Returns whether the archive has all files of a source, as they were when it was read last.
    pub(crate) fn is_archived(&self, source: i64) -> Result<bool> {
        let sql = "SELECT 1 FROM archive_reads JOIN sources ON sources.id = source
                   WHERE source = ?1 AND archive_reads.size = sources.size
                   AND archive_reads.modified = sources.modified
                   AND archive_reads.inode = sources.inode";
        self.database.prepare_cached(sql)?.exists([source])
    }

    /// Lists the sources of a session's recordings.
    pub(crate) fn session_sources(&self, session: u64) -> Result<Vec<i64>> {
        let sql = "SELECT DISTINCT source FROM recordings WHERE session = ?1 AND combined = 0";
        self.database.values(sql, [session as i64])
    }
}

impl Writer<'_> {
    /// Returns whether the archive has a chunk, also one of this transaction.
    pub(crate) fn has_archive_chunk(&self, hash: ChunkHash) -> Result<bool> {
        self.store.has_chunk(hash)
    }

    /// Adds a frame and those of its chunks that are new.
    pub(crate) fn add_frame(
        &self,
        place: &FramePlace,
        raw: u64,
        sum: u64,
        chunks: &[FrameChunk],
    ) -> Result<()> {
        let frame = self.insert_frame(place, raw, sum)?;
        let sql = "INSERT OR IGNORE INTO archive_chunks (hash, frame, start, bytes)
                   VALUES (?1, ?2, ?3, ?4)";
        let mut statement = self.database.prepare_cached(sql)?;
        for chunk in chunks {
            let (start, bytes) = (chunk.start as i64, chunk.bytes as i64);
            statement.execute(params![hash_bytes(chunk.hash), frame, start, bytes])?;
        }
        Ok(())
    }

    fn insert_frame(&self, place: &FramePlace, raw: u64, sum: u64) -> Result<i64> {
        let (pack, start, bytes, body) = match place {
            FramePlace::Pack { number, start, bytes } => {
                (Some(*number as i64), *start as i64, *bytes as i64, None)
            }
            FramePlace::Row(body) => (None, 0, body.len() as i64, Some(body)),
        };
        let sql = "INSERT INTO archive_frames (pack, start, bytes, raw, sum, body)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6) RETURNING id";
        let row = params![pack, start, bytes, raw as i64, sum as i64, body];
        self.database.value(sql, row)
    }

    /// Writes a version of a file. Returns `false` and writes nothing if one of its chunks is
    /// missing, or if the version that grew is no longer the latest.
    pub(crate) fn add_version(&self, row: &VersionRow) -> Result<bool> {
        let latest = self.store.latest_version(&row.path)?;
        if row.grown.is_some() && latest.map(|latest| latest.id) != row.grown {
            return Ok(false);
        }
        let mut chunks = Vec::with_capacity(row.parts.len());
        {
            let sql = "SELECT id FROM archive_chunks WHERE hash = ?1";
            for part in &row.parts {
                let id = self.database.optional_value::<i64>(sql, [hash_bytes(part.hash)])?;
                let Some(id) = id else { return Ok(false) };
                chunks.push((part.start as i64, id));
            }
        }
        let file = file_key(&row.path);
        let sql = "INSERT OR IGNORE INTO archive_files (id, path) VALUES (?1, ?2)";
        self.database.execute(sql, params![file, PathValue(&row.path)])?;
        self.link_archive_file(row.source, &row.path)?;
        let same = match (row.grown, latest) {
            (None, Some(latest)) if latest.length == row.length => {
                self.has_parts(latest.id, &chunks)?.then_some(latest.id)
            }
            _ => None,
        };
        let version = if let Some(version) = row.grown.or(same) {
            version
        } else {
            let sql = "INSERT INTO archive_versions
                       (file, length, cut, guard, size, modified, inode)
                       VALUES (?1, 0, 0, 0, 0, 0, 0) RETURNING id";
            self.database.value(sql, [file])?
        };
        let old = if row.grown.is_some() { self.cut_parts(version, row.from)? } else { Vec::new() };
        if same.is_none() {
            let sql = "INSERT INTO archive_parts (version, start, chunk) VALUES (?1, ?2, ?3)";
            let mut statement = self.database.prepare_cached(sql)?;
            for (start, chunk) in chunks {
                statement.execute([version, start, chunk])?;
            }
        }
        self.drop_row_chunks(&old)?;
        let sql = "UPDATE archive_versions SET length = :length, cut = :cut, guard = :guard,
                   size = :size, modified = :modified, inode = :inode WHERE id = :id";
        let values = named_params! {
            ":length": row.length as i64, ":cut": row.cut as i64, ":guard": row.guard as i64,
            ":size": row.stamp.size as i64, ":modified": row.stamp.modified,
            ":inode": row.stamp.inode as i64, ":id": version,
        };
        self.database.execute(sql, values)?;
        let is_longer = latest.is_none_or(|latest| latest.length != row.length);
        if is_longer || same.is_none() && row.grown.is_none() {
            let sql = "INSERT OR IGNORE INTO archive_states (version, seen_at, length)
                       VALUES (?1, ?2, ?3)";
            let state = [version, row.seen_at.as_millis(), row.length as i64];
            self.database.execute(sql, state)?;
        }
        Ok(true)
    }

    fn has_parts(&self, version: i64, parts: &[(i64, i64)]) -> Result<bool> {
        let sql = "SELECT start, chunk FROM archive_parts WHERE version = ?1 ORDER BY start";
        let known: Vec<(i64, i64)> =
            self.database.rows(sql, [version], |row| Ok((row.get("start")?, row.get("chunk")?)))?;
        Ok(known == parts)
    }

    /// Removes the parts of a version from an offset on. Returns their chunks.
    fn cut_parts(&self, version: i64, from: u64) -> Result<Vec<i64>> {
        let sql = "SELECT chunk FROM archive_parts WHERE version = ?1 AND start >= ?2";
        let old: Vec<i64> = self.database.values(sql, [version, from as i64])?;
        let sql = "DELETE FROM archive_parts WHERE version = ?1 AND start >= ?2";
        self.database.execute(sql, [version, from as i64])?;
        Ok(old)
    }

    /// Deletes those of the chunks that no version needs and that are stored in the database.
    fn drop_row_chunks(&self, chunks: &[i64]) -> Result<()> {
        let unused = "SELECT frame FROM archive_chunks
                      JOIN archive_frames ON archive_frames.id = frame
                      WHERE archive_chunks.id = ?1 AND pack IS NULL
                      AND NOT EXISTS (SELECT 1 FROM archive_parts WHERE chunk = ?1)";
        for chunk in chunks {
            let Some(frame) = self.database.optional_value::<i64>(unused, [*chunk])? else {
                continue;
            };
            self.database.execute("DELETE FROM archive_chunks WHERE id = ?1", [*chunk])?;
            let sql = "DELETE FROM archive_frames WHERE id = ?1
                       AND NOT EXISTS (SELECT 1 FROM archive_chunks WHERE frame = ?1)";
            self.database.execute(sql, [frame])?;
        }
        Ok(())
    }

    /// Notes that a source was read from a file.
    pub(crate) fn link_archive_file(&self, source: i64, path: &Path) -> Result<()> {
        let sql = "INSERT OR IGNORE INTO archive_sources (source, file) VALUES (?1, ?2)";
        self.database.execute(sql, [source, file_key(path)]).map(drop)
    }

    /// Notes that the archive has all files of a source as they are now.
    pub(crate) fn set_archived(&self, source: i64, stamp: Stamp) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO archive_reads (source, size, modified, inode)
                   VALUES (?1, ?2, ?3, ?4)";
        let row = params![source, stamp.size as i64, stamp.modified, stamp.inode as i64];
        self.database.execute(sql, row).map(drop)
    }

    /// Deletes everything that the archive knows of a source. Files that other sources were read
    /// from stay. `collect_garbage` then deletes the content.
    pub(crate) fn forget_archived_source(&self, source: i64) -> Result<()> {
        let sql = "SELECT file FROM archive_sources WHERE source = ?1 AND NOT EXISTS (
                       SELECT 1 FROM archive_sources others
                       WHERE others.file = archive_sources.file AND others.source != ?1)";
        let files: Vec<i64> = self.database.values(sql, [source])?;
        for file in files {
            let of_file = "(SELECT id FROM archive_versions WHERE file = ?1)";
            for sql in [
                &format!("DELETE FROM archive_parts WHERE version IN {of_file}"),
                &format!("DELETE FROM archive_states WHERE version IN {of_file}"),
                "DELETE FROM archive_versions WHERE file = ?1",
                "DELETE FROM archive_files WHERE id = ?1",
            ] {
                self.database.execute(sql, [file])?;
            }
        }
        self.database.execute("DELETE FROM archive_sources WHERE source = ?1", [source])?;
        self.database.execute("DELETE FROM archive_reads WHERE source = ?1", [source]).map(drop)
    }

    /// Deletes the chunks that no version needs from the catalogue.
    pub(crate) fn delete_unused_chunks(&self) -> Result<()> {
        let sql = "DELETE FROM archive_chunks
                   WHERE NOT EXISTS (SELECT 1 FROM archive_parts WHERE chunk = archive_chunks.id)";
        self.database.execute(sql, []).map(drop)
    }

    /// Deletes a frame from the catalogue. Its chunks stay there.
    pub(crate) fn delete_frame(&self, frame: i64) -> Result<()> {
        self.database.execute("DELETE FROM archive_frames WHERE id = ?1", [frame]).map(drop)
    }

    /// Adds a frame with chunks that the catalogue knows.
    pub(crate) fn move_chunks(
        &self,
        place: &FramePlace,
        raw: u64,
        sum: u64,
        chunks: &[FrameChunk],
    ) -> Result<()> {
        let frame = self.insert_frame(place, raw, sum)?;
        let sql = "UPDATE archive_chunks SET frame = ?2, start = ?3 WHERE hash = ?1";
        let mut statement = self.database.prepare_cached(sql)?;
        for chunk in chunks {
            statement.execute(params![hash_bytes(chunk.hash), frame, chunk.start as i64])?;
        }
        Ok(())
    }
}
