"""Ports for servers that tests start."""

import random
import socket

#: Below the system's ephemeral ports: one of those may be taken before its server starts, or while
#: it restarts.
RANGE = range(12_000, 32_000)


def free_ports(count: int) -> list[int]:
    free: list[int] = []
    for port in random.SystemRandom().sample(RANGE, 100 + count):
        with socket.socket() as one:
            try:
                one.bind(("127.0.0.1", port))
            except OSError:
                continue
        free.append(port)
        if len(free) == count:
            return free
    raise AssertionError("No free ports")
