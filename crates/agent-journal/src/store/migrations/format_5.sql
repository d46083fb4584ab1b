-- Format 5: recordings and their metadata have their own names.

DROP INDEX tellings_hidden;
DROP INDEX tellings_by_session;
DROP INDEX tellings_by_source;
DROP INDEX tellings_combined;
ALTER TABLE tellings RENAME TO recordings;
ALTER TABLE recordings RENAME COLUMN account TO metadata;
CREATE INDEX recordings_hidden ON recordings (key) WHERE hidden = 1;
CREATE INDEX recordings_by_session ON recordings (session);
CREATE INDEX recordings_by_source ON recordings (source);
CREATE INDEX recordings_combined ON recordings (key) WHERE combined = 1;

ALTER TABLE chunks RENAME COLUMN telling TO recording;
ALTER TABLE sessions RENAME COLUMN telling TO recording;
ALTER TABLE coverage RENAME COLUMN telling TO recording;
ALTER TABLE fingerprints RENAME COLUMN telling TO recording;

DROP INDEX usage_by_telling;
ALTER TABLE usage RENAME COLUMN telling TO recording;
CREATE INDEX usage_by_recording ON usage (recording, position);

DROP INDEX anchors_by_telling;
ALTER TABLE anchors RENAME COLUMN telling TO recording;
CREATE INDEX anchors_by_recording ON anchors (recording);
