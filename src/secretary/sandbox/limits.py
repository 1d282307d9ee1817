"""What one call into a sandbox may use."""

from dataclasses import dataclass
from datetime import timedelta

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one call may use; the wait for a free process does not count."""

    wall_time: timedelta | None = None
    #: Resident memory of the process and everyone below it.
    memory_bytes: int | None = 2048 * MIB
    #: Size of the pickled result, and of any one message.
    output_bytes: int = 64 * MIB
    #: How many processes may live at a time: the end of a fork bomb.
    processes: int = 256


DEFAULT_LIMITS = Limits()
