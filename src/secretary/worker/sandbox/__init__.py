"""Calls in child processes with limits, for work that may crash, hang or eat memory."""

from .pool import Limits, RemoteError, Sandbox, SandboxClosed, SandboxInterrupted

__all__ = [
    "Limits",
    "RemoteError",
    "Sandbox",
    "SandboxClosed",
    "SandboxInterrupted",
]
