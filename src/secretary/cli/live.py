"""Jobs as they change, on a terminal: a table that is drawn anew."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .board import Show, what_of
from .place import Advance, Document, Status
from .tables import age, coloured, console, duration, moment, table_of

BAR_WIDTH = 12


@contextmanager
def table() -> Iterator[Show]:
    with Live(console=console(), auto_refresh=False) as live:
        yield lambda jobs: live.update(drawn(jobs), refresh=True)


def drawn(jobs: Sequence[Document]) -> Table | Text:
    if not jobs:
        return Text("Nothing waits or runs.", "dim")
    drawing = table_of("JOB", "TYPE", "STATUS", "", "DONE", "LEFT", "AGE", "WHAT")
    for job in jobs:
        advance = Advance.of(job)
        name = f"{job['job_name']}: " if job["job_name"] else ""
        drawing.add_row(
            job["job_id"],
            Text(job["job_type"]),
            coloured(job["status"]),
            ProgressBar(total=100, completed=advance.percent, width=BAR_WIDTH),
            f"{advance.percent} %",
            left(job, advance),
            age(job["created_at"]),
            Text(name + what_of(job, advance)),
        )
    return drawing


def left(job: Document, advance: Advance) -> str:
    """If it goes on as it went so far."""
    if job["status"] != Status.PROCESSING or not 0 < advance.percent < 100:
        return ""
    passed = datetime.now(UTC) - moment(job["processing_started_at"])
    return duration(passed * (100 - advance.percent) / advance.percent)
