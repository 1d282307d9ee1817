"""Server-sent events: their form on the wire, and the response that sends them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from fastapi import Response
from starlette.types import Receive, Scope, Send

from ..events import Subscription
from .events import Event

HEARTBEAT = b": heartbeat\n\n"
#: How long a client should wait before it connects again.
RETRY_MILLISECONDS = 2000

#: What a stream sends. The first piece, which may be empty, says that there is a stream at all.
Pieces = AsyncGenerator[bytes, None]


def encoded(event: Event, event_id: str) -> bytes:
    # In ASCII: so JSON has no character that ends a line, and no half of a surrogate pair.
    data = json.dumps(event.document, separators=(",", ":"))
    text = f"id: {event_id}\nevent: {event.name}\nretry: {RETRY_MILLISECONDS}\ndata: {data}\n\n"
    return text.encode("ascii")


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
