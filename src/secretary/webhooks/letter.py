"""What is posted for one event: where to, with which headers and which body."""

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

from ..files import JobFiles
from ..job import Batch, Job, Webhook, utc_now
from ..store.outbox import DueEvent
from .archive import read_archive
from .headers import as_bytes, headers_for
from .payload import body, client_id


@dataclass(frozen=True, slots=True)
class Letter:
    url: str
    headers: list[tuple[bytes, bytes]]
    body: bytes


async def write(event: DueEvent, owner: Job | Batch, webhook: Webhook, files: JobFiles) -> Letter:
    archive = None
    if isinstance(owner, Job):
        if webhook.include_archive:  # asked for as the job is stored: it says what to pack
            archive = await read_archive(files, owner)
        owner = await files.filled(owner)
    return await asyncio.to_thread(_written, event, owner, webhook, archive)


def _written(
    event: DueEvent, owner: Job | Batch, webhook: Webhook, archive: bytes | None
) -> Letter:
    """May take a while: results can be large."""
    content = body(owner, webhook, archive=archive)
    headers = headers_for(
        webhook,
        message_id=message_id(event),
        at=utc_now(),
        body=content,
        traceparent=owner.traceparent if isinstance(owner, Job) else None,
    )
    return Letter(url_for(owner, webhook), as_bytes(headers), content)


def message_id(event: DueEvent) -> str:
    """The same for all tries of an end; each word on progress is a message of its own."""
    delivery = event.delivery
    if delivery.event != "progress":
        return delivery.delivery_id
    return f"{delivery.delivery_id}-{delivery.tried + 1}"


def url_for(owner: Job | Batch, webhook: Webhook) -> str:
    return webhook.url.replace("{jobId}", quote(client_id(owner, webhook), safe=""))
