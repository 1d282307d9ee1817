"""Calls in child processes with limits, for work that may crash, hang or eat memory."""

from .failures import RemoteError, SandboxClosed, SandboxInterrupted
from .guard import PATIENCE_SECONDS
from .limits import DEFAULT_LIMITS, Limits
from .pool import Sandbox

__all__ = [
    "DEFAULT_LIMITS",
    "PATIENCE_SECONDS",
    "Limits",
    "RemoteError",
    "Sandbox",
    "SandboxClosed",
    "SandboxInterrupted",
]
