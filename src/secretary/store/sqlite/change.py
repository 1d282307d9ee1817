"""What clients wish of jobs that are stored."""

from collections.abc import Mapping, Sequence
from typing import Any

import apsw

from ...job import Cancelled, Webhook
from ..json_text import dumps
from . import outbox
from .changes import NEXT_REVISION
from .states import back_to_line, cancel_job, ended


def cancel(db: apsw.Connection, seqs: Sequence[int]) -> None:
    for seq in seqs:
        row = db.execute("SELECT status, batch_id FROM jobs WHERE seq = ?", (seq,)).fetchone()
        assert row is not None
        if row[0] == "pending":
            cancel_job(db, seq, Cancelled().reason)
            ended(db, seq, row[1])
        else:
            db.execute(
                f"UPDATE jobs SET cancel_requested = 1, revision = {NEXT_REVISION} WHERE seq = ?",
                (seq,),
            )


def restart(db: apsw.Connection, seqs: Sequence[int], parameters: Mapping[str, Any] | None) -> None:
    for seq in seqs:
        back_to_line(db, seq)
        db.execute(
            "UPDATE jobs SET failures = 0, crashes = 0, cancel_requested = 0, archived = 0,"
            " step = 'queued', percent = 0, message = '' WHERE seq = ?",
            (seq,),
        )
        db.execute(
            "UPDATE contents SET results = NULL, resources = NULL,"
            " parameters = coalesce(?, parameters) WHERE seq = ?",
            (None if parameters is None else dumps(parameters), seq),
        )
        _reopen(db, seq)


def _reopen(db: apsw.Connection, seq: int) -> None:
    """The end of a restarted job, and of its batch, is not to be told any more."""
    row: Any = db.execute(
        "SELECT job_id, batch_id, webhook FROM jobs JOIN contents USING (seq) WHERE seq = ?", (seq,)
    ).fetchone()
    job_id, batch_id, webhook = row
    if webhook is not None:
        outbox.begin_again(db, job_id, Webhook.model_validate_json(webhook))
    if batch_id is not None:
        db.execute("UPDATE batches SET completed_at = NULL WHERE batch_id = ?", (batch_id,))
        outbox.withdraw(db, batch_id)
