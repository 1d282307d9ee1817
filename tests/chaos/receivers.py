"""Webhook receivers that fail in every possible way and record what they have accepted."""

import asyncio
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from secretary.core.http_headers import webhook_signature

from ..ports import free_ports
from ..webhook_receiver import CUT, OK, RESET, Received, Receiver, Reply
from .workload import BROKEN

SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
#: What a faulty receiver does, by the name of its fault; None: it hangs, then closes the
#: connection.
FAULTY_REPLIES: dict[str, Reply | None] = {
    "answer 500": Reply(status=500),
    "close in the middle": CUT,
    "hang": None,
}
REFUSING = "refuse connections"


@dataclass(frozen=True)
class ReceivedEvent:
    """An event that a receiver has accepted with a 200."""

    path: str
    message_id: str
    is_signed: bool
    #: From the body: `phase`, `status`, `job_id`, `batch_id` and so on.
    document: dict[str, Any]
    #: By the monotonic clock.
    at: float = 0.0

    @property
    def is_end(self) -> bool:
        return self.document["phase"] in ("completed", "error")

    @classmethod
    def of(cls, request: Received) -> "ReceivedEvent":
        signed = _is_signed(request)
        return cls(request.path, request.message_id, signed, request.json, request.at)


def _is_signed(request: Received) -> bool:
    """Whatever its timestamp: the clock may be set while the request is in transit."""
    headers = request.headers
    timestamp = headers.get("webhook-timestamp", "")
    right = webhook_signature(SECRET, request.message_id, timestamp, request.body)
    return timestamp.isdigit() and headers.get("webhook-signature") == right


class Mailbox:
    """One endpoint: always on the same port, even after it was closed."""

    def __init__(self) -> None:
        self.received_events: list[ReceivedEvent] = []
        self.refused = 0
        self._fault: str | None = None
        self._recovered = threading.Event()
        self._stack = ExitStack()
        (self.port,) = free_ports(1)
        self._open()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def take(self, received: Received) -> Reply:
        if received.path == BROKEN:
            return Reply(status=500)
        fault = self._fault
        if fault is None:
            self.received_events.append(ReceivedEvent.of(received))
            return OK
        self.refused += 1
        reply = FAULTY_REPLIES[fault]
        if reply is None:
            self._recovered.wait(60)
        return reply or RESET

    async def misbehave(self, fault: str, seconds: float) -> None:
        if fault == REFUSING:
            await asyncio.to_thread(self._stack.close)
            await asyncio.sleep(seconds)
            self._open()
            return
        self._recovered.clear()
        self._fault = fault
        await asyncio.sleep(seconds)
        self._fault = None
        self._recovered.set()

    def _open(self) -> None:
        self._stack.enter_context(_Receiver(self, self.port).running())

    def close(self) -> None:
        self._recovered.set()
        self._stack.close()


class _Receiver(Receiver):
    def __init__(self, mailbox: Mailbox, port: int) -> None:
        super().__init__(port)
        self._mailbox = mailbox

    def take(self, received: Received) -> Reply:
        return self._mailbox.take(received)


async def all_delivered(mailboxes: list[Mailbox], paths: set[str], *, seconds: float) -> set[str]:
    """Wait until each of these paths has received a final event; return those that have not."""
    deadline = time.monotonic() + seconds
    while True:
        missing = paths - {
            one.path for box in mailboxes for one in list(box.received_events) if one.is_end
        }
        if not missing or time.monotonic() > deadline:
            return missing
        await asyncio.sleep(0.1)
