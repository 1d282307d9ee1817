"""Passes damaged documents to the processors, in a sandbox as in a worker but without jobs, so that
there are many per second."""

import asyncio
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from secretary.core.errors import JobFailed
from secretary.core.files import IMAGE_TYPES, OFFICE_TYPES, detect_file_type
from secretary.documents.ocr.images import inspect_image
from secretary.documents.ocr.recognition import process_image_pages
from secretary.documents.office.pages import process_office_document
from secretary.documents.pages import METHODS, PREVIEW, PageStore, PageTask
from secretary.documents.pdf.pages import inspect_pdf, process_pdf_pages
from secretary.worker.sandbox import Limits, Sandbox
from secretary.worker.sandbox.child_main import send

from .cases import Case
from .findings import Find, Report

KINDS = ("pdf", "office", "pictures")
LIMITS = Limits(wall_time=timedelta(seconds=20), memory_bytes=1024 * 1024 * 1024)
MAX_PIXELS = 4_000_000
CONCURRENCY = 2

Batch = Sequence[Case]


#: The outcome, and what is wrong with it, if anything.
End = tuple[str, str | None]


def try_all(cases: Batch) -> list[End]:
    """Runs in the sandbox."""
    ends = []
    for case in cases:
        send(case)
        ends.append(_end(case))
    return ends


def _end(case: Case) -> End:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, case.name)
        path.write_bytes(case.content)
        try:
            return _process(path, Path(directory)), None
        except JobFailed as error:
            return error.code, None
        except MemoryError:  # the worker has an error code for this one too
            return "OUT_OF_MEMORY", None
        except Exception as error:  # what this is meant to find
            return type(error).__name__, traceback.format_exc()


def _process(path: Path, directory: Path) -> str:
    kind = detect_file_type(path)
    page_store = PageStore(str(directory / "kept"), str(directory / "shown"))
    for each in (page_store.directory, page_store.job_directory):
        Path(each).mkdir()
    if kind in OFFICE_TYPES:
        process_office_document(str(path), kind or "", path.name, page_store, str(directory), True)
    elif kind == "pdf" or kind in IMAGE_TYPES:
        _make_pages(path, kind, page_store, directory)
    else:
        return "refused"
    return "completed"


def _make_pages(path: Path, kind: str, page_store: PageStore, directory: Path) -> None:
    method = "preview_and_native" if kind == "pdf" else "preview"
    task = PageTask(
        path=str(path),
        method=METHODS[method],
        method_name=method,
        page_store=page_store,
        scratch=str(directory),
        max_pixels=MAX_PIXELS,
        renderings=(PREVIEW,),
        with_figures=True,
    )
    if kind == "pdf":
        pages = inspect_pdf(str(path), None)["page_count"]
        process_pdf_pages(task, range(1, min(pages, 3) + 1))
    else:
        inspect_image(str(path), MAX_PIXELS)
        process_image_pages(task, [1])


async def survey(batches: Iterator[Batch]) -> Report:
    report = Report()
    sandbox = Sandbox(CONCURRENCY, limits=LIMITS)
    await sandbox.open()
    try:
        await asyncio.gather(*(_runner(sandbox, batches, report) for _ in range(CONCURRENCY)))
    finally:
        await sandbox.close()
    return report


async def _runner(sandbox: Sandbox, batches: Iterator[Batch], report: Report) -> None:
    for batch in batches:
        begun = [batch[0]]
        try:
            ends = await sandbox.run(try_all, batch, on_message=begun.append)
            report.ends.update(end for end, _ in ends)
            pairs = zip(batch, ends, strict=True)
            report.defects += [Find(case, fault) for case, (_, fault) in pairs if fault]
        except JobFailed as error:
            report.deaths.append(Find(begun[-1], f"{error.code}: {error.message}"))
        report.tried += len(batch)
