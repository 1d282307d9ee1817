"""Calls in child processes with limits, for work that may crash, hang or eat memory."""

from .failures import RemoteError, SandboxClosed, SandboxInterrupted
from .limits import Limits
from .pool import Sandbox

__all__ = [
    "Limits",
    "RemoteError",
    "Sandbox",
    "SandboxClosed",
    "SandboxInterrupted",
]
