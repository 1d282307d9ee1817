"""Clients that read event streams."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

SECONDS = 10.0


@dataclass(frozen=True)
class Sent:
    """An event as a client receives it."""

    name: str
    event_id: str
    document: dict[str, Any]


class OpenStream:
    """The response to a stream request, read line by line."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()
        self.comments: list[str] = []

    async def next(self, seconds: float = SECONDS) -> Sent | None:
        """The next event; None at the end of the stream."""
        async with asyncio.timeout(seconds):
            return await self._next()

    async def until(self, name: str, seconds: float = SECONDS) -> list[Sent]:
        """The events up to the next one with this name."""
        events: list[Sent] = []
        async with asyncio.timeout(seconds):
            while not events or events[-1].name != name:
                event = await self._next()
                assert event is not None, f"The stream ended after {events}"
                events.append(event)
        return events

    async def rest(self, seconds: float = SECONDS) -> list[Sent]:
        """All events to the end of the stream."""
        events: list[Sent] = []
        async with asyncio.timeout(seconds):
            while (event := await self._next()) is not None:
                events.append(event)
        return events

    async def until_comment(self, text: str, seconds: float = SECONDS) -> None:
        async with asyncio.timeout(seconds):
            async for line in self._lines:
                if line == f": {text}":
                    return
        raise AssertionError(f"The stream ended without {text}")

    async def _next(self) -> Sent | None:
        fields: dict[str, str] = {}
        async for line in self._lines:
            if line.startswith(":"):
                self.comments.append(line[1:].strip())
            elif line:
                name, _, value = line.partition(": ")
                assert name not in fields, line
                fields[name] = value
            elif set(fields) == {"id"}:
                fields = {}  # the start position of the stream
            elif fields:
                assert set(fields) == {"id", "event", "retry", "data"}
                return Sent(fields["event"], fields["id"], json.loads(fields["data"]))
        assert not fields
        return None


class StreamClient(httpx.AsyncClient):
    def __init__(self, url: str, **headers: str) -> None:
        limits = httpx.Limits(max_connections=None)
        super().__init__(base_url=url, headers=headers, timeout=SECONDS, limits=limits)

    @asynccontextmanager
    async def opened(
        self, path: str, *, seen: str | None = None, **headers: str
    ) -> AsyncIterator[OpenStream]:
        if seen is not None:
            headers["Last-Event-ID"] = seen
        async with self.stream("GET", path, headers=headers) as response:
            if response.status_code != 204:
                assert response.status_code == 200, await response.aread()
                assert response.headers["content-type"].startswith("text/event-stream")
                assert response.headers["cache-control"] == "no-store"
                assert response.headers["x-accel-buffering"] == "no"
            yield OpenStream(response)
