"""Delivers events to webhooks: signed, retried, recorded."""

from .sender import BreakerOptions, RetrySchedule, Sender, SenderOptions

__all__ = ["BreakerOptions", "RetrySchedule", "Sender", "SenderOptions"]
