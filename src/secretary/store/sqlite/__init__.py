"""Jobs in one SQLite file: the embedded store, for everything that runs on one machine."""

from .store import SqliteStore

__all__ = ["SqliteStore"]
