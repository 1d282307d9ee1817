"""Runs calls in child processes with limits: work that may crash, hang or exhaust memory."""

from .child import Access, Limits, SandboxClosed, SandboxInterrupted
from .codec import RemoteError
from .pool import Sandbox

__all__ = ["Access", "Limits", "RemoteError", "Sandbox", "SandboxClosed", "SandboxInterrupted"]
