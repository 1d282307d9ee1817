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
