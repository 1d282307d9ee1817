-- Additions to the first schema. Everything is created if it is missing, and versions that do not
-- know it are not affected by it.

-- How many jobs ended when: see store/stats.py.
CREATE TABLE IF NOT EXISTS activity (
  scope    TEXT NOT NULL,      -- width of the slot, and whose jobs
  slot     INTEGER NOT NULL,
  job_type TEXT NOT NULL,
  status   TEXT NOT NULL,
  code     TEXT NOT NULL,
  rung     INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (scope, slot, job_type, status, code, rung)
) STRICT, WITHOUT ROWID;

CREATE INDEX IF NOT EXISTS jobs_archived ON jobs (created_at) WHERE archived = 1;

-- The last job submitted for each callback: see callbacks.py.
CREATE TABLE IF NOT EXISTS callbacks (
  key         TEXT PRIMARY KEY,
  job_id      TEXT NOT NULL,
  process_id  TEXT NOT NULL,   -- the first job, under which all of them report
  fingerprint TEXT NOT NULL,
  expires_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS callbacks_process ON callbacks (process_id);
CREATE INDEX IF NOT EXISTS callbacks_expiry ON callbacks (expires_at);

-- Jobs with a retention of their own, by when they expire (see queries.EXPIRES_AT).
CREATE INDEX IF NOT EXISTS jobs_expiring ON jobs (completed_at + retention_days * 86400000000)
  WHERE retention_days > 0 AND completed_at IS NOT NULL;

-- What users used, while there are quotas: see store/stats.py.
CREATE TABLE IF NOT EXISTS usage (
  day           INTEGER NOT NULL,   -- days since 1970
  user_id       TEXT NOT NULL,
  jobs          INTEGER NOT NULL DEFAULT 0,
  pages         INTEGER NOT NULL DEFAULT 0,
  audio_seconds REAL NOT NULL DEFAULT 0,
  PRIMARY KEY (day, user_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS jobs_stored ON jobs (user_id, stored_bytes)
  WHERE user_id IS NOT NULL AND stored_bytes > 0;
-- Suspects that wait for an idle worker; they are in no queue, so `turn` is NULL.
CREATE INDEX IF NOT EXISTS jobs_suspect ON jobs (updated_at)
  WHERE status = 'pending' AND group_size IS NOT NULL AND held = 0 AND run_at IS NULL;

-- Workers that were lost recently.
CREATE TABLE IF NOT EXISTS lost_workers (
  worker_id    TEXT PRIMARY KEY,
  lost_at      REAL NOT NULL,   -- on the machine's monotonic clock
  ran_suspects INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Busy workers that start nothing until they are idle and can run a suspect. Not a column of
-- `workers`: earlier versions insert its rows without naming the columns.
CREATE TABLE IF NOT EXISTS preparing_workers (
  worker_id TEXT PRIMARY KEY REFERENCES workers ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
