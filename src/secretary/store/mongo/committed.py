"""Tells clients only what stays. A primary shows what it was told before the other servers have
it; if it dies in that moment, that never was: a job, or the end of one."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from ...job import FINAL, utc_now
from .rows import LISTED, stamp
from .schema import Database, Document

#: What is older stays, even if the clocks of the machines differ. A primary that cannot reach
#: the others steps down after seconds.
YOUNG = timedelta(minutes=2)
FINALS = frozenset(status.value for status in FINAL)


async def committed(
    db: Database, documents: Sequence[Document], projection: Mapping[str, Any] | None = None
) -> list[Document]:
    """The jobs as they are, but without those, and without ends, that only the primary knows.
    Everything else may be of this moment: progress that is lost is told anew."""
    since = stamp(utc_now() - YOUNG)
    young = [document["_id"] for document in documents if _changed_at(document) > since]
    if not young:
        return list(documents)
    query = {"_id": {"$in": young}, "status": {"$in": LISTED}}
    found = db.committed.jobs.find(query, projection, hint="_id_")
    known = {document["_id"]: document async for document in found}
    kept: list[Document] = []
    for document in documents:
        sure = known.get(document["_id"], None if _changed_at(document) > since else document)
        if sure is not None:
            has_ended = document["status"] in FINALS and sure["status"] not in FINALS
            kept.append(sure if has_ended else document)
    return kept


def _changed_at(document: Document) -> str:
    created: str = document["created_at"]
    return max(created, document.get("completed_at") or "")
