"""The MongoDB store, for services that run on several machines."""

from .store import MongoStore

__all__ = ["MongoStore"]
