-- Times are microseconds since 1970 (UTC). Big columns live in `contents`, because SQLite
-- rewrites a whole row whenever one of its columns changes.

CREATE TABLE jobs (
  seq                   INTEGER PRIMARY KEY,
  job_id                TEXT NOT NULL UNIQUE,
  job_type              TEXT NOT NULL,
  job_name              TEXT,
  status                TEXT NOT NULL,
  user_id               TEXT,
  public                INTEGER NOT NULL,
  batch_id              TEXT,
  priority              INTEGER NOT NULL,
  run_at                INTEGER,
  turn                  INTEGER,                     -- position in the queue of its type and
                                                     -- priority; NULL unless it may start now
  held                  INTEGER NOT NULL DEFAULT 0,  -- its batch is paused
  timeout_s             REAL,
  max_attempts          INTEGER,
  attempt               INTEGER NOT NULL DEFAULT 0,
  failures              INTEGER NOT NULL DEFAULT 0,
  crashes               INTEGER NOT NULL DEFAULT 0,
  worker_id             TEXT,
  cancel_requested      INTEGER NOT NULL DEFAULT 0,
  archived              INTEGER NOT NULL DEFAULT 0,
  step                  TEXT NOT NULL,
  percent               INTEGER NOT NULL,
  message               TEXT NOT NULL,
  error_code            TEXT,
  created_at            INTEGER NOT NULL,
  updated_at            INTEGER NOT NULL,
  processing_started_at INTEGER,
  completed_at          INTEGER,
  revision              INTEGER NOT NULL             -- increases with every change visible to clients
) STRICT;

CREATE TABLE contents (
  seq            INTEGER PRIMARY KEY REFERENCES jobs ON DELETE CASCADE,
  parameters     TEXT NOT NULL,
  webhook        TEXT,
  access_control TEXT,
  traceparent    TEXT,
  attempts       TEXT,   -- earlier attempts; the job's row holds the latest
  error          TEXT,
  resources      TEXT,
  results        TEXT
) STRICT;

CREATE TABLE logs (
  seq       INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  n         INTEGER NOT NULL,
  logged_at INTEGER NOT NULL,
  level     TEXT NOT NULL,
  message   TEXT NOT NULL,
  PRIMARY KEY (seq, n)
) STRICT, WITHOUT ROWID;

-- Users other than the owner who may read a job that is not public.
CREATE TABLE readers (
  user_id    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seq        INTEGER NOT NULL REFERENCES jobs ON DELETE CASCADE,
  PRIMARY KEY (user_id, created_at, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX readers_of_job ON readers (seq);

CREATE TABLE batches (
  seq            INTEGER PRIMARY KEY,
  batch_id       TEXT NOT NULL UNIQUE,
  batch_name     TEXT,
  user_id        TEXT,
  access_control TEXT,
  readers        TEXT,   -- JSON list; NULL: everyone
  is_active      INTEGER NOT NULL,
  archived       INTEGER NOT NULL,
  webhook        TEXT,
  pending        INTEGER NOT NULL DEFAULT 0,
  processing     INTEGER NOT NULL DEFAULT 0,
  completed      INTEGER NOT NULL DEFAULT 0,
  failed         INTEGER NOT NULL DEFAULT 0,
  cancelled      INTEGER NOT NULL DEFAULT 0,
  created_at     INTEGER NOT NULL,
  updated_at     INTEGER NOT NULL,
  started_at     INTEGER,
  completed_at   INTEGER
) STRICT;
CREATE INDEX batches_newest ON batches (created_at);

CREATE TABLE workers (
  worker_id   TEXT PRIMARY KEY,
  info        TEXT NOT NULL,
  seen_at     INTEGER NOT NULL,
  lease_until REAL NOT NULL,   -- on the machine's monotonic clock, which cannot be set back
  boot        TEXT NOT NULL    -- ID of the boot that clock belongs to
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
  scope       TEXT NOT NULL,
  key         TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  job_ids     TEXT NOT NULL,
  batch_id    TEXT,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

-- Webhook deliveries, sent and due. The final event is written in the transaction that finishes the
-- job or batch; no attempt is left to make when `next_try_at` is NULL.
CREATE TABLE deliveries (
  delivery_id  TEXT PRIMARY KEY,
  owner_id     TEXT NOT NULL,   -- a job or a batch
  n            INTEGER NOT NULL,
  event        TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  replayed_at  INTEGER,
  delivered_at INTEGER,
  next_try_at  INTEGER,
  tried        INTEGER NOT NULL DEFAULT 0,
  tries        TEXT,
  UNIQUE (owner_id, n)
) STRICT, WITHOUT ROWID;

-- One row for each job or batch with a webhook: when the next delivery is due, and its queue.
CREATE TABLE outbox (
  owner_id     TEXT PRIMARY KEY,
  kind         TEXT NOT NULL,
  endpoint     TEXT NOT NULL,                 -- with the user: see queue_of in store/outbox.py
  due_at       INTEGER,                       -- NULL: nothing is due
  final        INTEGER NOT NULL DEFAULT 0,    -- the final event is due
  held_until   INTEGER,                       -- claimed by a sender until then
  told_percent INTEGER NOT NULL DEFAULT 0,    -- rate limit of progress: see store/outbox.py
  ripe_percent INTEGER,
  ripe_at      INTEGER,
  paced_at     INTEGER                        -- NULL: progress is not sent
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_due ON outbox (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX outbox_of_endpoint ON outbox (endpoint, final, due_at) WHERE due_at IS NOT NULL;

-- The queue. Indexes are partial, so that a million finished jobs do not slow down a claim.
CREATE INDEX jobs_ready ON jobs (job_type, priority, turn, seq) WHERE turn IS NOT NULL;
CREATE INDEX jobs_of_user_ready ON jobs (job_type, priority, user_id, turn) WHERE turn IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (run_at)
  WHERE status = 'pending' AND turn IS NULL AND held = 0;
CREATE INDEX jobs_running ON jobs (worker_id) WHERE status = 'processing';

-- Lists, newest first.
CREATE INDEX jobs_newest ON jobs (created_at);
CREATE INDEX jobs_by_status ON jobs (status, created_at);
CREATE INDEX jobs_by_type ON jobs (job_type, created_at);
CREATE INDEX jobs_by_user ON jobs (user_id, created_at);
CREATE INDEX jobs_by_batch ON jobs (batch_id, created_at) WHERE batch_id IS NOT NULL;
CREATE INDEX jobs_by_error ON jobs (error_code, created_at) WHERE error_code IS NOT NULL;
CREATE INDEX jobs_public ON jobs (created_at) WHERE public = 1 AND user_id IS NOT NULL;
CREATE INDEX jobs_ended ON jobs (status, completed_at) WHERE completed_at IS NOT NULL;

-- The change feed. Deletions are recorded too; a revision is never reused.
CREATE INDEX jobs_changed ON jobs (revision);
CREATE TABLE traces (
  revision INTEGER PRIMARY KEY,
  job_id   TEXT,   -- a deleted job
  batch_id TEXT    -- its batch; without a job: a batch that changed
) STRICT;

-- Counters, updated in the same transaction as the rows they count.
CREATE TABLE tallies (
  job_type TEXT NOT NULL,
  status   TEXT NOT NULL,
  n        INTEGER NOT NULL,
  PRIMARY KEY (job_type, status)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER count_added AFTER INSERT ON jobs BEGIN
  INSERT INTO tallies VALUES (NEW.job_type, NEW.status, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER count_changed AFTER UPDATE OF status ON jobs WHEN OLD.status <> NEW.status BEGIN
  UPDATE tallies SET n = n - 1 WHERE job_type = OLD.job_type AND status = OLD.status;
  INSERT INTO tallies VALUES (NEW.job_type, NEW.status, 1)
    ON CONFLICT DO UPDATE SET n = n + 1;
END;
CREATE TRIGGER count_deleted AFTER DELETE ON jobs BEGIN
  UPDATE tallies SET n = n - 1 WHERE job_type = OLD.job_type AND status = OLD.status;
END;

CREATE TRIGGER batch_added AFTER INSERT ON jobs WHEN NEW.batch_id IS NOT NULL BEGIN
  UPDATE batches SET
    pending    = pending    + (NEW.status = 'pending'),
    processing = processing + (NEW.status = 'processing'),
    completed  = completed  + (NEW.status = 'completed'),
    failed     = failed     + (NEW.status = 'failed'),
    cancelled  = cancelled  + (NEW.status = 'cancelled')
  WHERE batch_id = NEW.batch_id;
END;
CREATE TRIGGER batch_changed AFTER UPDATE OF status ON jobs
  WHEN NEW.batch_id IS NOT NULL AND OLD.status <> NEW.status BEGIN
  UPDATE batches SET
    pending    = pending    + (NEW.status = 'pending')    - (OLD.status = 'pending'),
    processing = processing + (NEW.status = 'processing') - (OLD.status = 'processing'),
    completed  = completed  + (NEW.status = 'completed')  - (OLD.status = 'completed'),
    failed     = failed     + (NEW.status = 'failed')     - (OLD.status = 'failed'),
    cancelled  = cancelled  + (NEW.status = 'cancelled')  - (OLD.status = 'cancelled'),
    started_at = CASE WHEN NEW.status = 'processing' AND started_at IS NULL
                      THEN NEW.updated_at ELSE started_at END,
    updated_at = NEW.updated_at
  WHERE batch_id = NEW.batch_id;
END;
CREATE TRIGGER batch_deleted AFTER DELETE ON jobs WHEN OLD.batch_id IS NOT NULL BEGIN
  UPDATE batches SET
    pending    = pending    - (OLD.status = 'pending'),
    processing = processing - (OLD.status = 'processing'),
    completed  = completed  - (OLD.status = 'completed'),
    failed     = failed     - (OLD.status = 'failed'),
    cancelled  = cancelled  - (OLD.status = 'cancelled')
  WHERE batch_id = OLD.batch_id;
END;
