"""The service in an environment with fault injection: processes, store, disk, clock, receivers."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from ..acceptance.service import ROOT, environment
from ..mongod import Mongod
from ..ports import free_ports
from .clock import VARIABLE, Clock
from .disk import Disk, small_disk
from .external_services import ExternalServices, external_services
from .fault_plan import WORKERS
from .receivers import Mailbox
from .service_process import Member

#: A job fails for good after losing its process this often.
MAX_CRASHES = 4
CLOCKED = Path(__file__).parent / "clocked"
#: Another program, such as a backup, that locks the database for a while.
HOLD_LOCK = """
import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
db.execute("BEGIN IMMEDIATE")
time.sleep(float(sys.argv[2]))
db.execute("ROLLBACK")
"""


@dataclass
class Cluster:
    directory: Path
    disk: Disk
    clock: Clock
    #: The store as the runner accesses it.
    url: str
    server: Mongod | None
    api: Member
    workers: list[Member]
    mailboxes: list[Mailbox]
    external_services: ExternalServices
    port: int

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def journal(self) -> Path:
        """Not on the disk that is filled up: it must record everything."""
        return self.directory / "journal"

    @property
    def members(self) -> list[Member]:
        return [self.api, *self.workers]

    @property
    def token(self) -> str:
        """Set in the environment of all processes of this cluster, and of no others."""
        return f"{VARIABLE}={self.clock.file}"

    @property
    def data_directories(self) -> list[Path]:
        return sorted(path for path in self.disk.root.iterdir() if path.is_dir())

    async def disrupt_store(self, seconds: float) -> None:
        if self.server is not None:
            self.server.stop()
            await asyncio.sleep(seconds)
            await asyncio.to_thread(self.server.start)
            return
        file = self.url.removeprefix("sqlite://")
        holder = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLD_LOCK, file, str(seconds), stderr=subprocess.DEVNULL
        )
        await holder.wait()


@asynccontextmanager
async def running_cluster(directory: Path, store: str) -> AsyncIterator[Cluster]:
    with small_disk(directory) as disk:
        server = await asyncio.to_thread(_mongod, directory) if store == "mongodb" else None
        mailboxes = [Mailbox(), Mailbox()]
        try:
            async with external_services() as other:
                cluster = _create(directory, disk, server, mailboxes, other)
                try:
                    yield cluster
                finally:
                    for member in cluster.members:
                        await member.end()
        finally:
            for mailbox in mailboxes:
                mailbox.close()
            if server is not None:
                server.stop()


def _mongod(directory: Path) -> Mongod:
    data_dir = directory / "mongod"
    data_dir.mkdir()
    server = Mongod(data_dir)
    server.start()
    return server


def _create(
    directory: Path,
    disk: Disk,
    server: Mongod | None,
    mailboxes: list[Mailbox],
    other: ExternalServices,
) -> Cluster:
    clock, (port,) = Clock(directory / "clock"), free_ports(1)  # kept across restarts
    url = server.url("chaos") if server else f"sqlite://{disk.root}/data/secretary.db"
    settings = {
        "PYTHONPATH": f"{CLOCKED}:{ROOT / 'src'}:{ROOT}",
        VARIABLE: str(clock.file),
        "SECRETARY_HANDLERS": "tests.chaos.handlers:register",
        "SECRETARY_GENERIC_WORKER__SHUTDOWN_GRACE_SEC": "2",
        "SECRETARY_GENERIC_WORKER__MAX_CRASHES": str(MAX_CRASHES),
        "SECRETARY_NETWORK__ALLOW_HOSTS": "127.0.0.1",
        # Its receivers ignore repeated events, and the run is over long before the default.
        "SECRETARY_WEBHOOKS__UNCERTAIN_RETRY_SEC": "5",
        "PYTHONUNBUFFERED": "1",
        **other.model,
    }

    def member(name: str, command: list[str], ready: str) -> Member:
        # With MongoDB each is a separate machine; the embedded store is on one machine.
        data_dir = disk.root / (name.replace(" ", "-") if server else "data")
        data_dir.mkdir(exist_ok=True)
        env = environment(data_dir, url, **settings)
        return Member(name, command, env, directory / f"{name.replace(' ', '-')}.log", ready)

    api = member("api", ["serve", "--no-worker", "--port", str(port)], "listens on")
    workers = [member(f"worker {n + 1}", ["worker"], "takes jobs") for n in range(WORKERS)]
    return Cluster(directory, disk, clock, url, server, api, workers, mailboxes, other, port)
