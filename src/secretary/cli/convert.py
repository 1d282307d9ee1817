"""`secretary convert`: files to Markdown, here and now, with no service."""

import asyncio
import os
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..desk import Desk
from ..errors import InvalidParameters, JobFailed, UnsupportedFile
from ..file_kinds import MOVING, OFFICE, PICTURES, SOUND, kind_of
from ..job import FINAL, JobStatus
from ..submission import JobRequest, read
from ..workshop import keep_cache, run_directory, user_directory, workshop
from .converted import Converted, Output
from .meter import Meter, meter
from .options import ConfigFile, DataDir, log_quietly, read_settings
from .output import complain

#: A page takes milliseconds, a scan minutes: the longer a job takes, the rarer it is looked at.
FIRST_LOOK, LAST_LOOK = 0.01, 0.2
#: A service must protect itself; here someone is watching.
NO_LIMIT_SECONDS = 30 * 86400


def add_to(app: typer.Typer) -> None:
    app.command()(convert)


class Method(StrEnum):
    """Those of job type `pdf`; a test holds them to it."""

    AUTO = "auto"
    NATIVE = "native"
    OCR = "ocr"
    BOTH = "both"
    PREVIEW = "preview"
    PREVIEW_AND_NATIVE = "preview_and_native"
    LLM = "llm"
    LLM_AND_NATIVE = "llm_and_native"
    LLM_AND_OCR = "llm_and_ocr"


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of every file."""

    method: Method
    pages: tuple[int | None, int | None]
    language: str | None
    password: str | None
    images: bool


def convert(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Documents, pictures, sound, video")
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The directory to write to [default: this one]"),
    ] = None,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the Markdown instead")] = False,
    method: Annotated[Method, typer.Option(help="How to read pages")] = Method.AUTO,
    language: Annotated[
        str | None, typer.Option(help="Of scans, like deu+eng; of recordings, like en")
    ] = None,
    pages: Annotated[str | None, typer.Option(help="Of PDFs, like 3-7, 5 or 3-")] = None,
    password: Annotated[str | None, typer.Option(help="Of encrypted files")] = None,
    images: Annotated[bool, typer.Option("--images", help="Pictures, too")] = False,
    subtitles: Annotated[
        bool, typer.Option("--subtitles", help="Of recordings: NAME.srt and NAME.vtt, too")
    ] = False,
    data_dir: DataDir = None,
    config: ConfigFile = None,
) -> None:
    """Convert files to Markdown; the exit code is 1 when one of them failed."""
    if stdout and (output is not None or images or subtitles):
        text = "--stdout prints Markdown alone: it goes without -o, --images and --subtitles"
        raise InvalidParameters(text)
    wish = Wish(method, page_range(pages), language, password, images)
    out = Output(None if stdout else output or Path(), files, subtitles=subtitles)
    try:
        went_well = asyncio.run(_convert(files, wish, out, data_dir, config))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if not went_well:
        raise typer.Exit(1)


def page_range(text: str | None) -> tuple[int | None, int | None]:
    """`3-7`, `5`, `3-` and `-7`; nothing means all."""
    if text is None:
        return None, None
    first, dash, last = (part.strip() for part in text.partition("-"))
    numbers = [part for part in (first, last) if part]
    if not numbers or not all(part.isdecimal() and int(part) for part in numbers):
        raise InvalidParameters(f"--pages {text}: it must look like 3-7, 5, 3- or -7")
    start, end = (int(part) if part else None for part in (first, last))
    if not dash:
        return start, start
    if start and end and start > end:
        raise InvalidParameters(f"--pages {text}: the last page comes before the first")
    return start, end


async def _convert(
    files: Sequence[Path], wish: Wish, out: Output, data_dir: Path | None, config: Path | None
) -> bool:
    """Whether all went well."""
    _stop_on_signals()
    slots = os.cpu_count() or 1
    home = data_dir or user_directory()
    with run_directory(home) as directory:
        keep_cache(home, directory)
        storage = {
            "data_dir": directory,
            "mongodb_uri": None,
            "source_roots": sorted({file.resolve().parent for file in files}),
        }
        media = {"keep_recording_mb": 0}  # who converts a recording has it
        settings = read_settings(config, None, storage=storage, media=media)
        log_quietly(settings)
        with meter(printing=out.is_printing) as show:
            async with workshop(settings, slots=slots) as desk:
                room = asyncio.Semaphore(2 * slots)  # no need to have them all in the queue
                runs = [_run(desk, file, wish, room, show) for file in files]
                return await _put_all(desk, files, runs, out)


def _stop_on_signals() -> None:
    """As Ctrl-C does: whoever ends this leaves nothing behind."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _put_all(
    desk: Desk, files: Sequence[Path], runs: Sequence[Coroutine[Any, Any, str]], out: Output
) -> bool:
    """In the order of the files, each as soon as it and all before it have ended."""
    tasks = [asyncio.create_task(run) for run in runs]
    well = True
    try:
        for file, task in zip(files, tasks, strict=True):
            try:
                await _put(desk, file, await task, out)
            except JobFailed as error:
                complain(f"{file}: {error.message} ({error.code})")
                well = False
            except OSError as error:
                complain(f"{file}: what came of it cannot be written: {error.strerror}")
                well = False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return well


async def _put(desk: Desk, file: Path, job_id: str, out: Output) -> None:
    job = await desk.outline(job_id)  # its texts are in files, from which they are copied
    if job.error is not None:
        failed = JobFailed(job.error.message)
        failed.code = job.error.code
        raise failed
    out.put(Converted(file, job, desk.files))


async def _run(desk: Desk, file: Path, wish: Wish, room: asyncio.Semaphore, show: Meter) -> str:
    """The id of the job when it has ended: what came of it may be large, and stays in the store."""
    async with room:
        job = await desk.submit(await asyncio.to_thread(request_for, file, wish))
        wait = FIRST_LOOK
        with show.file(file.name) as tell:
            while job.status not in FINAL:
                await asyncio.sleep(wait)
                wait = min(wait * 1.3, LAST_LOOK)
                job = await desk.outline(job.job_id)
                if job.status == JobStatus.PROCESSING:
                    tell(job.progress.step, job.progress.percent)
        return job.job_id


def request_for(file: Path, wish: Wish) -> JobRequest:
    """The job that converts a file: what it is says its content."""
    try:
        kind = kind_of(file)
    except OSError as error:
        raise InvalidParameters(error.strerror or "it cannot be read") from None
    job_type, more = _job_for(kind, wish)
    parameters = {"file_path": str(file.resolve()), "include_images": wish.images, **more}
    document = {
        "job_type": job_type,
        "parameters": {key: value for key, value in parameters.items() if value is not None},
        "job_name": file.name[:500],
        "max_attempts": 1,
        "timeout_s": NO_LIMIT_SECONDS,
    }
    return read(JobRequest, document)


def _job_for(kind: str | None, wish: Wish) -> tuple[str, dict[str, Any]]:
    """The job type, and the parameters that hold for it."""
    first, last = wish.pages
    reading = {"extraction_method": wish.method.value, "ocr_language": wish.language}
    paging = {"page_start": first, "page_end": last, "password": wish.password}
    if kind == "pdf":
        return "pdf", reading | paging
    if kind in PICTURES:
        return "imageocr", reading
    if kind in OFFICE:
        # It has pages on paper only; and what is old can be read no other way.
        plain = wish.method in (Method.AUTO, Method.NATIVE) and wish.pages == (None, None)
        if plain and kind != "ole":
            return "office", {}
        return "office", {"via_pdf": True} | reading | paging
    if kind in MOVING and (wish.images or kind not in SOUND):
        frames = {"include_frames": wish.images, "include_slide_text": wish.images}
        return "video", {"source_language": wish.language} | frames
    if kind in SOUND:
        return "audio", {"source_language": wish.language}
    raise UnsupportedFile("It is no document, picture or recording of a kind that is known")
