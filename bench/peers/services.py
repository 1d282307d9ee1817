"""Start the broker or database of one row: `python services.py redis|redis-fsync|mongodb`.

It listens on a free loopback port and stores its data in the current directory. Once it responds,
one line of JSON with its "url" is printed; then it runs until it is killed with its children.
"""

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pymongo
from pymongo.errors import PyMongoError

sys.path.append(str(Path(__file__).resolve().parent.parent))

from harness import find_mongod

START_LIMIT_S = 25
REPLICA_SET = "bench"
#: With these options Redis syncs each write to disk before it answers.
FSYNC = ("--appendonly", "yes", "--appendfsync", "always")


def main(service: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    ready: Callable[[], bool]
    if service == "mongodb":
        data = Path("mongo")
        data.mkdir()
        command = [
            find_mongod() or "mongod", "--port", str(port), "--bind_ip", "127.0.0.1",
            "--dbpath", str(data), "--replSet", REPLICA_SET,
            "--unixSocketPrefix", str(data.resolve()),
            "--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0",
        ]  # fmt: skip
        url = f"mongodb://{address}/bench?replicaSet={REPLICA_SET}"
        direct = f"mongodb://{address}/?directConnection=true"
        client = pymongo.MongoClient[dict[str, object]](direct, serverSelectionTimeoutMS=200)
        ready = partial(_is_primary, client, address)
    else:
        options = FSYNC if service == "redis-fsync" else ()
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", *options]
        url = f"redis://{address}/0"
        ready = partial(_responds, port)
    with Path("server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    deadline = time.monotonic() + START_LIMIT_S
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f"{service} does not respond after {START_LIMIT_S} s")
        time.sleep(0.05)
    print(json.dumps({"url": url}), flush=True)
    server.wait()


def _responds(port: int) -> bool:
    with (
        suppress(OSError),  # it is still starting
        socket.create_connection(("127.0.0.1", port), timeout=1) as connection,
    ):
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def _is_primary(client: "pymongo.MongoClient[dict[str, object]]", address: str) -> bool:
    with suppress(PyMongoError):  # it is still starting
        hello = client.admin.command("hello")
        if not hello.get("setName"):
            members = [{"_id": 0, "host": address}]
            client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
        return bool(hello.get("isWritablePrimary"))
    return False


if __name__ == "__main__":
    main(sys.argv[1])
