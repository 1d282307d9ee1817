"""Delivers events to webhooks: signed, retried, recorded."""

from .retry_policy import BreakerOptions, Schedule
from .sender import Sender, SenderOptions

__all__ = ["BreakerOptions", "Schedule", "Sender", "SenderOptions"]
