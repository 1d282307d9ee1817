"""The rows of the engine benchmark, and how each is run."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PEERS = Path(__file__).resolve().parent / "peers"


@dataclass(frozen=True)
class Adapter:
    """One row: a module in `peers/` that `verbs.py` runs under the Python named here."""

    name: str
    module: str
    python: Path
    service: str | None = None
    """The module in `peers/` that keeps the row's server up, run under our own Python."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What its programs find in their environment besides."""

    def command(self, verb: str, *arguments: int) -> list[str]:
        verbs = str(PEERS / "verbs.py")
        return [str(self.python), verbs, self.module, verb, *map(str, arguments)]

    def service_command(self) -> list[str] | None:
        return [sys.executable, str(PEERS / f"{self.service}.py")] if self.service else None


#: Only the server: what works there are programs of our own.
MONGODB = Adapter("mongodb", "secretary_peer", Path(sys.executable), service="mongo_service")


def adapters(peers_python: Path) -> list[Adapter]:
    ours = Path(sys.executable)
    return [
        Adapter("secretary-sqlite", "secretary_peer", ours),
        Adapter("secretary-loop", "secretary_loop_peer", ours),
        Adapter("secretary-mongodb", "secretary_peer", ours, service="mongo_service"),
        Adapter("celery", "celery_peer", peers_python, service="redis_service"),
        Adapter("rq", "rq_peer", peers_python, service="redis_service"),
        Adapter("dramatiq", "dramatiq_peer", peers_python, service="redis_service"),
        Adapter("huey-redis", "huey_peer", peers_python, service="redis_service"),
        Adapter("huey-sqlite", "huey_peer", peers_python),
        Adapter("saq", "saq_peer", peers_python, service="redis_service"),
    ]
