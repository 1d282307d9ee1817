"""Server-sent events: their form on the wire, and the response that sends them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from fastapi import Response
from starlette.types import Receive, Scope, Send

from ..events import Subscription
from ..json_bytes import json_bytes
from .events import Event

HEARTBEAT = b": heartbeat\n\n"
#: How long a client should wait before it connects again.
RETRY_MILLISECONDS = 2000
#: Characters beside those of ASCII at which some clients end a line: U+0085, U+2028, U+2029.
LINE_ENDS = (b"\xc2\x85", b"\xe2\x80\xa8", b"\xe2\x80\xa9")

#: What a stream sends. The first piece, which may be empty, says that there is a stream at all.
Pieces = AsyncGenerator[bytes, None]


def encoded(event: Event, event_id: str) -> bytes:
    head = f"id: {event_id}\nevent: {event.name}\nretry: {RETRY_MILLISECONDS}\ndata: "
    return b"%b%b\n\n" % (head.encode("ascii"), _on_one_line(event.document))


def _on_one_line(document: dict[str, Any]) -> bytes:
    data = json_bytes(document)
    if any(mark in data for mark in LINE_ENDS):
        return json.dumps(document, separators=(",", ":")).encode("ascii")
    return data


class NobodyListens(Exception):
    """The client has gone, or the service stops."""


class EventStream(Response):
    """Sends pieces as they come, until there are no more or the client has gone.

    An error before the first piece is an error of the request. Without any piece the answer
    is a 204: it tells a browser, which else comes back for ever, that it was all.
    """

    def __init__(self, subscription: Subscription, pieces: Pieces) -> None:
        self.background = None
        self.raw_headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]
        self._subscription = subscription
        self._pieces = pieces

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watching = asyncio.create_task(self._notice_departure(receive))
        try:
            async with aclosing(self._pieces) as pieces:
                first = await anext(pieces, None)
                status = 204 if first is None else 200
                headers = self.raw_headers
                await send({"type": "http.response.start", "status": status, "headers": headers})
                if first is not None:
                    await _send(send, first)
                    with suppress(NobodyListens):
                        async for piece in pieces:
                            await _send(send, piece)
                await _send(send, b"", more=False)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _notice_departure(self, receive: Receive) -> None:
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            self._subscription.close()


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
