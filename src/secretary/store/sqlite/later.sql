-- What came after the first tables. All of it is made whenever it is missing, and a program that
-- does not know it does no harm to it.

-- How many jobs ended when: see store/activity.py.
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
