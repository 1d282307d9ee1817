"""Reads server-sent events from the pieces in which they come."""

import json
from collections.abc import Iterator

from .documents import Event


class EventReader:
    """What is not complete when a connection breaks is never given out, and its id not kept: so
    it comes again."""

    def __init__(self, last_id: str | None = None) -> None:
        self.last_id = last_id
        #: All has been told.
        self.is_over = False
        #: Seconds to wait before coming back, as the service asks.
        self.pause: float | None = None
        #: Something has come on this connection, if only a heartbeat.
        self.is_alive = False
        self._rest: list[bytes] = []
        self._fields: dict[str, str] = {}

    def restart(self) -> None:
        """On a new connection; where it was is kept."""
        self.is_alive = False
        self._rest, self._fields = [], {}

    def feed(self, piece: bytes) -> Iterator[Event]:
        self.is_alive = True
        if b"\n" not in piece:  # of a long line, which is put together once
            self._rest.append(piece)
            return
        *lines, rest = b"".join([*self._rest, piece]).split(b"\n")
        self._rest = [rest]
        for line in lines:
            event = self._line(line.removesuffix(b"\r").decode(errors="replace"))
            if event is not None:
                yield event

    def _line(self, line: str) -> Event | None:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data" and "data" in self._fields:
                value = f"{self._fields['data']}\n{value}"
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if fields.get("retry", "").isdecimal():
            self.pause = int(fields["retry"]) / 1000
        self.last_id = fields.get("id", self.last_id)
        if "data" not in fields:
            return None
        return Event.read(fields.get("event", "message"), self.last_id, json.loads(fields["data"]))
