"""The most memory that the service and its child processes take, by the length of the file."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from arena import Failed
from processes import watching

from .long_files import plain_pages, scan
from .service import serving

PROCESSES = 2
LOOK_EVERY_S = 0.05
SCAN_DPI = 200


@dataclass
class Peak:
    method: str
    pages: int
    service_mb: float = 0
    #: Of the largest child process.
    child_mb: float = 0
    all_mb: float = 0
    seconds: float = 0
    failure: str | None = None


def measure_memory(root: Path, native: Sequence[int], ocr: Sequence[int]) -> list[Peak]:
    """Each in a service of its own: memory that was taken once may stay taken."""
    peaks = [_measure("native", pages, plain_pages(root, pages), root) for pages in native]
    for pages in ocr:
        peaks.append(_measure("ocr", pages, scan(root, "en", SCAN_DPI, pages).pdf, root))
    return peaks


def _measure(method: str, pages: int, file: Path, root: Path) -> Peak:
    peak = Peak(method, pages)
    try:
        with serving(root, root, processes=PROCESSES) as service:
            # Of each process by its id, also of those that end meanwhile.
            highest: dict[int, int] = {}

            def look() -> None:
                for pid, size in service.tree.peak_bytes().items():
                    highest[pid] = max(size, highest.get(pid, 0))

            with watching(look, LOOK_EVERY_S):
                options = {"ocr_language": "eng"} if method == "ocr" else {}
                peak.seconds = service.read(file, extraction_method=method, **options).client_s
            leader = highest.pop(service.tree.leader)
    except Failed as failure:
        peak.failure = str(failure)
        return peak
    peak.service_mb = leader / 1e6
    peak.child_mb = max(highest.values(), default=0) / 1e6
    peak.all_mb = (leader + sum(highest.values())) / 1e6
    return peak
