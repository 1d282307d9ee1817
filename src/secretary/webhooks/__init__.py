"""Delivers events to webhooks: signed, retried, recorded."""

from .retries import BreakerOptions, RetrySchedule
from .sender import DeliveryLimits, Sender, SenderOptions

__all__ = ["BreakerOptions", "DeliveryLimits", "RetrySchedule", "Sender", "SenderOptions"]
