"""The addresses of a name, as the system knows them."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any

RESOLVE_SECONDS = 10.0


async def system_addresses(host: str, port: int) -> Sequence[str]:
    """
    What the system's resolver says. It cannot be stopped while it waits for a name server, so it
    gets a thread of its own: those that everyone shares would soon all be waiting.
    """
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def settle(settled: Callable[[Any], None], value: object) -> None:
        if not answer.done():
            settled(value)

    def look_up() -> None:
        with suppress(RuntimeError):  # the loop has ended in the meantime
            try:
                found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                loop.call_soon_threadsafe(settle, answer.set_exception, error)
            else:
                addresses = [str(address[0]) for *_, address in found]
                loop.call_soon_threadsafe(settle, answer.set_result, addresses)

    Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
    async with asyncio.timeout(RESOLVE_SECONDS):
        return await answer
