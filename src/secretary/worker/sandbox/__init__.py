"""Calls in child processes with limits, for work that may crash, hang or eat memory."""

from .calls import Limits, RemoteError, SandboxClosed, SandboxInterrupted
from .pool import Sandbox

__all__ = [
    "Limits",
    "RemoteError",
    "Sandbox",
    "SandboxClosed",
    "SandboxInterrupted",
]
