"""Receivers of webhooks that fail in all the ways there are, and note what they have taken."""

import asyncio
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from secretary.core.http_headers import webhook_signature

from ..ports import free_ports
from ..webhook_receiver import CUT, OK, RESET, Received, Receiver, Reply

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#: What an ill receiver does, by the name of its fault; None: it hangs, then hangs up.
ILL: dict[str, Reply | None] = {
    "answer 500": Reply(status=500),
    "close in the middle": CUT,
    "hang": None,
}
REFUSING = "refuse connections"


@dataclass(frozen=True)
class ReceivedEvent:
    """An event that a receiver has taken: it was answered with a 200."""

    path: str
    message_id: str
    is_signed: bool
    #: Of the body: `phase`, `status`, `job_id`, `batch_id` and the rest.
    document: dict[str, Any]

    @property
    def is_end(self) -> bool:
        return self.document["phase"] in ("completed", "error")

    @classmethod
    def of(cls, request: Received) -> "ReceivedEvent":
        return cls(request.path, request.message_id, _is_signed(request), request.json)


def _is_signed(request: Received) -> bool:
    """Whatever time it says: the clock is set while it is on its way."""
    headers = request.headers
    timestamp = headers.get("webhook-timestamp", "")
    right = webhook_signature(SECRET, request.message_id, timestamp, request.body)
    return timestamp.isdigit() and headers.get("webhook-signature") == right


class Mailbox:
    """One endpoint: the same port throughout, also after it was closed."""

    def __init__(self) -> None:
        self.received_events: list[ReceivedEvent] = []
        self.refused = 0
        self._illness: str | None = None
        self._well = threading.Event()
        self._stack = ExitStack()
        (self.port,) = free_ports(1)
        self._open()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self, received: Received) -> Reply:
        illness = self._illness
        if illness is None:
            self.received_events.append(ReceivedEvent.of(received))
            return OK
        self.refused += 1
        reply = ILL[illness]
        if reply is None:
            self._well.wait(60)
        return reply or RESET

    async def be_ill(self, illness: str, seconds: float) -> None:
        if illness == REFUSING:
            await asyncio.to_thread(self._stack.close)
            await asyncio.sleep(seconds)
            self._open()
            return
        self._well.clear()
        self._illness = illness
        await asyncio.sleep(seconds)
        self._illness = None
        self._well.set()

    def _open(self) -> None:
        self._stack.enter_context(_Receiver(self, self.port).running())

    def close(self) -> None:
        self._well.set()
        self._stack.close()


class _Receiver(Receiver):
    def __init__(self, mailbox: Mailbox, port: int) -> None:
        super().__init__(port)
        self._mailbox = mailbox

    def take(self, received: Received) -> Reply:
        return self._mailbox.take(received)


async def all_delivered(mailboxes: list[Mailbox], paths: set[str], *, seconds: float) -> set[str]:
    """Wait until each of these paths has received an end; return those that have not."""
    deadline = time.monotonic() + seconds
    while True:
        missing = paths - {
            one.path for box in mailboxes for one in list(box.received_events) if one.is_end
        }
        if not missing or time.monotonic() > deadline:
            return missing
        await asyncio.sleep(0.1)
