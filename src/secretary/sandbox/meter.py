"""CPU time, memory and the memory limit of the process it runs in."""

import os
import resource


class Meter:
    def __init__(self) -> None:
        self._status = _opened("/proc/self/status", os.O_RDONLY)
        self._statm = _opened("/proc/self/statm", os.O_RDONLY)
        self._clear_refs = _opened("/proc/self/clear_refs", os.O_WRONLY)
        self._children_peak = 0

    def start(self, memory_bytes: int) -> None:
        if self._clear_refs is not None:
            os.pwrite(self._clear_refs, b"5", 0)  # the peak counts from now on
        if memory_bytes and self._statm is not None:
            # For what allocates faster than the worker looks; with a margin, as not all that
            # is mapped is touched.
            had = int(os.pread(self._statm, 128, 0).split()[5]) * resource.getpagesize()
            _limit_data(had + memory_bytes * 5 // 4)

    def stop(self) -> None:
        _limit_data(resource.RLIM_INFINITY)

    def cpu_seconds(self) -> float:
        own = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    def rss_bytes(self) -> int:
        if self._statm is None:
            return 0
        return int(os.pread(self._statm, 128, 0).split()[1]) * resource.getpagesize()

    def peak_bytes(self) -> int:
        """Since `start`; of a child that has ended, only if it was the largest so far."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if children <= self._children_peak:
            return self._own_peak_bytes()
        self._children_peak = children
        return max(children, self._own_peak_bytes())

    def _own_peak_bytes(self) -> int:
        if self._status is None:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        # Not ru_maxrss: that one starts with the peak of the worker which spawned us.
        status = os.pread(self._status, 4096, 0)
        at = status.index(b"VmHWM:") + len(b"VmHWM:")
        return int(status[at : status.index(b"kB", at)]) * 1024


def _opened(path: str, flags: int) -> int | None:
    try:
        return os.open(path, flags)
    except OSError:
        return None


def _limit_data(size: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY and not 0 <= size <= hard:
        size = hard
    resource.setrlimit(resource.RLIMIT_DATA, (size, hard))
