"""Jobs as they change, on a terminal: a table that is drawn anew."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from .backend import Advance, Document, Status
from .tables import age, cell, coloured, console, duration, moment, table_of
from .watch import Show, what_of

BAR_WIDTH = 12
#: Ids are always whole, for they are copied; what else there is goes by the room for it.
ROOM_FOR_TYPE, ROOM_FOR_BAR = 100, 130


@contextmanager
def table() -> Iterator[Show]:
    with Live(console=console(), auto_refresh=False) as live:
        yield lambda jobs: live.update(drawn(jobs, live.console.width), refresh=True)


def drawn(jobs: Sequence[Document], width: int) -> Table | Text:
    if not jobs:
        return Text("Nothing waits or runs.", "dim")
    shown = {
        "JOB": True,
        "TYPE": width >= ROOM_FOR_TYPE,
        "STATUS": True,
        "": width >= ROOM_FOR_BAR,
        "DONE": True,
        "LEFT": True,
        "AGE": width >= ROOM_FOR_TYPE,
        "WHAT": True,
    }
    drawing = table_of(*(name for name, is_shown in shown.items() if is_shown))
    drawing.expand, drawing.columns[-1].ratio = True, 1  # so the others keep their width
    for job in jobs:
        cells = zip(_cells(job), shown.values(), strict=True)
        drawing.add_row(*(cell for cell, is_shown in cells if is_shown))
    return drawing


def _cells(job: Document) -> tuple[RenderableType, ...]:
    advance = Advance.of(job)
    what = what_of(job, advance)
    name = job["job_name"] or job["job_type"]
    return (
        job["job_id"],
        cell(job["job_type"]),
        coloured(job["status"]),
        ProgressBar(total=100, completed=advance.percent, width=BAR_WIDTH),
        f"{advance.percent} %",
        left(job, advance),
        age(job["created_at"]),
        cell(f"{name}: {what}" if what else name),
    )


def left(job: Document, advance: Advance) -> str:
    """If it goes on as it went so far."""
    if job["status"] != Status.PROCESSING or not 0 < advance.percent < 100:
        return ""
    passed = datetime.now(UTC) - moment(job["processing_started_at"])
    return duration(passed * (100 - advance.percent) / advance.percent)
