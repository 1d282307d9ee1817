"""`secretary convert`: convert files to Markdown, on this machine or by a service."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer

from ..core.errors import InvalidParameters, JobFailed, SecretaryError, UnsupportedFile
from .backend import Backend, Document
from .options import Target, with_target
from .output import ExitCode, ProgressDisplay, echo, echo_err, progress_display

#: Lifts the limits that protect a service: here the user can press Ctrl-C.
LOCAL_LIMITS = {"max_attempts": 1, "timeout_s": 30 * 86400}
CPUS = os.cpu_count() or 1
#: How many files are sent to a service at once.
CONCURRENT_UPLOADS = 4
#: How long to wait for a service to cancel a job after Ctrl-C.
CANCEL_TIMEOUT = 5.0


#: The extraction methods of job type `pdf`; a test compares them.
Method = Literal[
    "auto", "native", "ocr", "both", "preview", "preview_and_native", "llm", "llm_and_native",
    "llm_and_ocr",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class ConvertOptions:
    """How to convert each file."""

    method: Method
    pages: tuple[int | None, int | None]
    language: str | None
    password: str | None
    images: bool


@with_target
def convert(
    target: Target,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Documents, images, audio and video files"),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Output directory [default: current directory]"),
    ] = None,
    stdout: Annotated[
        bool, typer.Option("--stdout", help="Print the Markdown instead of writing files")
    ] = False,
    method: Annotated[Method, typer.Option(help="How to extract text from pages")] = "auto",
    language: Annotated[
        str | None,
        typer.Option(help="Language of scans, such as deu+eng, or of recordings, such as en"),
    ] = None,
    pages: Annotated[str | None, typer.Option(help="Pages, such as 3-7, 5 or 3-")] = None,
    password: Annotated[str | None, typer.Option(help="Password of encrypted PDFs")] = None,
    images: Annotated[bool, typer.Option("--images", help="Save images, too")] = False,
    subtitles: Annotated[
        bool, typer.Option("--subtitles", help="Save subtitles of recordings as .srt and .vtt")
    ] = False,
) -> None:
    """Convert files to Markdown; exit with 1 if one of them failed."""
    if stdout and (output is not None or images or subtitles):
        text = "--stdout prints Markdown alone: it goes without -o, --images and --subtitles"
        raise InvalidParameters(text)
    options = ConvertOptions(method, page_range(pages), language, password, images)
    writer = OutputWriter(None if stdout else output or Path(), files, subtitles=subtitles)
    try:
        succeeded = asyncio.run(_convert(target, files, options, writer))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if not succeeded:
        raise typer.Exit(ExitCode.FAILED)


def page_range(text: str | None) -> tuple[int | None, int | None]:
    """Parse `3-7`, `5`, `3-` or `-7`; None means all pages."""
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
    target: Target, files: Sequence[Path], options: ConvertOptions, writer: "OutputWriter"
) -> bool:
    """Return whether all files were converted."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):  # clean up as on Ctrl-C
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with progress_display(printing=writer.directory is None) as display:
        if target.service_url is None:
            context, limits, slots = _ephemeral_backend(target, files), LOCAL_LIMITS, 2 * CPUS
        else:
            context, limits, slots = target.open(), {}, CONCURRENT_UPLOADS
        async with context as backend:
            semaphore = asyncio.Semaphore(slots)  # so that the queue stays short
            runs = [_run(backend, file, options, limits, semaphore, display) for file in files]
            return await _write_all(backend, files, runs, writer)


@asynccontextmanager
async def _ephemeral_backend(target: Target, files: Sequence[Path]) -> AsyncIterator[Backend]:
    """Open a store and a worker for this run alone."""
    from .local import LocalBackend, ephemeral_runtime, run_directory, user_cache

    parent = target.data_dir or user_cache()
    with run_directory(parent) as directory:
        cache = (parent / "cache").resolve()  # shared between runs
        cache.mkdir(exist_ok=True)
        (directory / "cache").symlink_to(cache)
        storage = {
            "data_dir": directory,
            "mongodb_uri": None,
            "files": "directory",
            "source_roots": sorted({file.resolve().parent for file in files}),
        }
        media = {"keep_recording_mb": 0}  # the user has the recording
        settings = Target(config=target.config).quiet_settings(storage=storage, media=media)
        async with ephemeral_runtime(settings, slots=CPUS) as app:
            yield LocalBackend(app, app.job_service)


async def _run(
    backend: Backend,
    file: Path,
    options: ConvertOptions,
    limits: Document,
    slots: asyncio.Semaphore,
    display: ProgressDisplay,
) -> Document:
    """Submit a file's job and return it when it has finished."""
    async with slots:
        request = await asyncio.to_thread(request_for, file, options)
        with display.job(file.name) as on_progress:
            job = await backend.submit({**request, **limits}, file)
            try:
                job = await backend.follow(job["job_id"], on_progress)
            except asyncio.CancelledError:
                with suppress(SecretaryError, TimeoutError):
                    async with asyncio.timeout(CANCEL_TIMEOUT):
                        await backend.change_job(job["job_id"], "cancel")
                raise
        results = job["results"] or {}
        if results.get("markdown_file"):
            # Drop texts that are in a file as well: with many files they would fill the memory.
            results = {name: results.get(name) for name in ("markdown_file", "assets", "subtitles")}
        return {**job, "results": results}


def request_for(file: Path, options: ConvertOptions) -> Document:
    """Build the job request for a file from its content."""
    from ..core.files import detect_file_type

    try:
        job_type, type_parameters = _job_for(detect_file_type(file), options)
    except OSError as error:
        raise InvalidParameters(error.strerror or "it cannot be read") from None
    given = {"include_images": options.images, **type_parameters}
    parameters = {key: value for key, value in given.items() if value is not None}
    return {"job_type": job_type, "parameters": parameters, "job_name": file.name[:500]}


def _job_for(file_type: str | None, options: ConvertOptions) -> tuple[str, dict[str, Any]]:
    """Return the job type for a file and the parameters that apply to it."""
    from ..core.files import AUDIO_TYPES, IMAGE_TYPES, OFFICE_TYPES, VIDEO_TYPES

    first, last = options.pages
    extraction = {"extraction_method": options.method, "ocr_language": options.language}
    page_options = {"page_start": first, "page_end": last, "password": options.password}
    if file_type == "pdf":
        return "pdf", extraction | page_options
    if file_type in IMAGE_TYPES:
        return "imageocr", extraction
    if file_type in OFFICE_TYPES:
        # Only a printed document has pages, and legacy formats can only be printed.
        all_pages = options.method in ("auto", "native") and options.pages == (None, None)
        if all_pages and file_type != "ole":
            return "office", {}
        return "office", {"via_pdf": True} | extraction | page_options
    if file_type in VIDEO_TYPES and (options.images or file_type not in AUDIO_TYPES):
        frames = {"include_frames": options.images, "include_slide_text": options.images}
        return "video", {"source_language": options.language} | frames
    if file_type in AUDIO_TYPES:
        return "audio", {"source_language": options.language}
    raise UnsupportedFile("It is no document, picture or recording of a kind that is known")


async def _write_all(
    backend: Backend,
    files: Sequence[Path],
    runs: Sequence[Coroutine[Any, Any, Document]],
    writer: "OutputWriter",
) -> bool:
    """Write the output in the order of the files, each as soon as possible."""
    tasks = [asyncio.create_task(run) for run in runs]
    succeeded = True
    try:
        for file, task in zip(files, tasks, strict=True):
            try:
                job = await task
                if (failure := job["error"]) is not None:
                    echo_err(f"{file}: {failure['message']} ({failure['code']})")
                    succeeded = False
                    continue
                with tempfile.TemporaryDirectory() as directory:
                    writer.write(file, *await collect_output(backend, job, Path(directory)))
            except JobFailed as error:
                echo_err(f"{file}: {error.message} ({error.code})")
                succeeded = False
            except OSError as error:
                echo_err(f"{file}: the result cannot be written: {error.strerror}")
                succeeded = False
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return succeeded


async def collect_output(
    backend: Backend, job: Document, directory: Path
) -> tuple[str, list[Path], list[Path]]:
    """Return the Markdown of a finished job (empty if there is no text), its images and its
    subtitles; `directory` receives files that are downloaded."""
    results = job["results"] or {}

    async def fetch(links: Iterable[str]) -> list[Path]:
        paths = [await backend.fetch_file(job, link, directory) for link in links]
        return [path for path in paths if path is not None]

    markdown_files = await fetch([results["markdown_file"]] if results.get("markdown_file") else [])
    if markdown_files:
        text = markdown_files[0].read_text(encoding="utf-8", errors="replace")
    else:
        text = results.get("markdown_content") or results.get("extracted_text") or ""
    markdown = text.strip("\n") + "\n" if text.strip() else ""
    images = await fetch(results.get("assets") or [])
    subtitles = await fetch(link for link in (results.get("subtitles") or {}).values() if link)
    return markdown, images, subtitles


class OutputWriter:
    """Writes output files to a directory, or to standard output if `directory` is None."""

    def __init__(
        self, directory: Path | None, files: Sequence[Path], *, subtitles: bool = False
    ) -> None:
        self.directory = directory
        self._subtitles = subtitles
        self._several = len(files) > 1
        #: Never overwritten: the input files and what this run has written.
        self._taken = {file.resolve() for file in files}

    def write(
        self, file: Path, markdown: str, images: Sequence[Path], subtitles: Sequence[Path]
    ) -> None:
        if not markdown and (self.directory is None or not images):
            raise UnsupportedFile("There is no text in it")
        if self.directory is None:
            heading = f"<!-- {file.name.replace('--', '- -')} -->\n\n"
            sys.stdout.write((heading if self._several else "") + markdown)
            sys.stdout.flush()
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self._free_path(self.directory, file)
        markdown = markdown or "".join(f"![]({image.name})\n\n" for image in images)
        directory = path.with_name(f"{path.stem}_files")
        for image in images:
            directory.mkdir(exist_ok=True)
            shutil.copyfile(image, directory / image.name)
            link = f"]({quote(directory.name)}/{image.name})"
            markdown = markdown.replace(f"]({image.name})", link)
        _write_atomically(path, markdown)
        echo(str(path))
        for source in subtitles if self._subtitles else []:
            target = path.with_suffix(source.suffix)
            if target.exists():  # the user's own; the transcript may be based on them
                echo_err(f"{target} is there already and stays as it is")
                continue
            _write_atomically(target, source.read_text(encoding="utf-8"))
            echo(str(target))

    def _free_path(self, directory: Path, file: Path) -> Path:
        names = [f"{file.stem}.md", f"{file.name}.md"]
        names += [f"{file.name}-{number}.md" for number in range(2, len(self._taken) + 2)]
        paths = (directory / name for name in names)
        path = next(path for path in paths if path.resolve() not in self._taken)
        self._taken.add(path.resolve())
        return path


def _write_atomically(path: Path, text: str) -> None:
    from ..core.files import atomic_write  # most commands write no files

    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
