"""Delivers events to webhooks: signed, retried, recorded."""

from .sender import BreakerOptions, Schedule, Sender, SenderOptions

__all__ = ["BreakerOptions", "Schedule", "Sender", "SenderOptions"]
