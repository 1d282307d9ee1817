"""A Redis of one row's own: default persistence, on a free loopback port, in the current directory.

A service is a program that prints one line of JSON with its "url" once it answers, and then stays
until it is killed with all its children.
"""

import json
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

READY_WITHIN_S = 10


def main(options: Sequence[str] = ()) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *options]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _wait_until_it_answers(port)
    print(json.dumps({"url": f"redis://127.0.0.1:{port}/0"}), flush=True)
    server.wait()


def _wait_until_it_answers(port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < deadline:
        with (
            suppress(OSError),  # it is still starting
            socket.create_connection(("127.0.0.1", port), timeout=1) as connection,
        ):
            connection.sendall(b"PING\r\n")
            if connection.recv(64).startswith(b"+PONG"):
                return
        time.sleep(0.02)
    raise SystemExit(f"redis-server does not answer after {READY_WITHIN_S} s")


if __name__ == "__main__":
    main()
