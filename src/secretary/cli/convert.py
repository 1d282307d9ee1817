"""`secretary convert`: files to Markdown, here and now, or by a service elsewhere."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ..core.errors import InvalidParameters, JobFailed, SecretaryError, UnsupportedFile
from .backend import Backend, Document
from .options import Target, log_quietly, somewhere
from .output import ExitCode, complain, say
from .progress_bar import ProgressBar, meter


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of a file: its text, "" when there is none, and the files beside it."""

    file: Path
    markdown: str
    pictures: Sequence[Path] = ()
    subtitles: Sequence[Path] = ()


async def gathered(place: Backend, file: Path, job: Document, directory: Path) -> Converted:
    """What an ended job has made; what must be fetched goes to the directory."""
    results = job["results"] or {}

    async def found(links: Iterable[str]) -> list[Path]:
        paths = [await place.file(job, link, directory) for link in links]
        return [path for path in paths if path is not None]

    texts = await found([results["markdown_file"]] if results.get("markdown_file") else [])
    if texts:
        text = texts[0].read_text(encoding="utf-8", errors="replace")
    else:
        text = results.get("markdown_content") or results.get("extracted_text") or ""
    markdown = text.strip("\n") + "\n" if text.strip() else ""
    pictures = await found(results.get("assets") or [])
    subtitles = await found(link for link in (results.get("subtitles") or {}).values() if link)
    return Converted(file, markdown, pictures, subtitles)


class Output:
    """`directory` None means standard output."""

    def __init__(
        self, directory: Path | None, files: Sequence[Path], *, subtitles: bool = False
    ) -> None:
        self._directory = directory
        self._subtitles = subtitles
        self._several = len(files) > 1
        #: Nothing is written over: neither what is being read nor what was just written.
        self._taken = {file.resolve() for file in files}

    @property
    def is_printing(self) -> bool:
        return self._directory is None

    def put(self, converted: Converted) -> None:
        markdown = converted.markdown
        pictures = converted.pictures if self._directory is not None else []
        if not markdown and not pictures:
            raise UnsupportedFile("There is no text in it")
        if self._directory is None:
            head = f"<!-- {converted.file.name.replace('--', '- -')} -->\n\n"
            sys.stdout.write((head if self._several else "") + markdown)
            sys.stdout.flush()
            return
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._free_path(converted.file)
        if not markdown:  # pictures alone were asked for
            markdown = "".join(f"![]({picture.name})\n\n" for picture in pictures)
        _write(path, _put_pictures(path.with_name(f"{path.stem}_files"), pictures, markdown))
        say(str(path))
        for subtitles in converted.subtitles if self._subtitles else []:
            beside = path.with_suffix(subtitles.suffix)
            if beside.exists():  # someone's own, by which we may have gone
                complain(f"{beside} is there already and stays as it is")
                continue
            _write(beside, subtitles.read_text(encoding="utf-8"))
            say(str(beside))

    def _free_path(self, file: Path) -> Path:
        assert self._directory is not None
        names = [f"{file.stem}.md", f"{file.name}.md"]
        names += [f"{file.name}-{number}.md" for number in range(2, len(self._taken) + 2)]
        paths = (self._directory / name for name in names)
        path = next(path for path in paths if path.resolve() not in self._taken)
        self._taken.add(path.resolve())
        return path


def _put_pictures(directory: Path, pictures: Sequence[Path], markdown: str) -> str:
    """The Markdown with links that lead there."""
    for picture in pictures:
        directory.mkdir(exist_ok=True)
        shutil.copyfile(picture, directory / picture.name)
        link = f"]({quote(directory.name)}/{picture.name})"
        markdown = markdown.replace(f"]({picture.name})", link)
    return markdown


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    unfinished = path.with_name(f".{path.name}.part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


#: A service must protect itself; here someone is watching.
UNLIMITED = {"max_attempts": 1, "timeout_s": 30 * 86400}
#: So many files are on their way to a service at once.
SENT_AT_ONCE = 4
#: To tell a service that nobody waits any more takes no longer.
FAREWELL_SECONDS = 5.0


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
class ConvertOptions:
    """What is wanted of every file."""

    method: Method
    pages: tuple[int | None, int | None]
    language: str | None
    password: str | None
    images: bool


@somewhere
def convert(
    where: Target,
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
) -> None:
    """Convert files to Markdown; the exit code is 1 when one of them failed."""
    if stdout and (output is not None or images or subtitles):
        text = "--stdout prints Markdown alone: it goes without -o, --images and --subtitles"
        raise InvalidParameters(text)
    wish = ConvertOptions(method, page_range(pages), language, password, images)
    out = Output(None if stdout else output or Path(), files, subtitles=subtitles)
    try:
        went_well = asyncio.run(_convert(where, files, wish, out))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    if not went_well:
        raise typer.Exit(ExitCode.FAILED)


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


async def _convert(where: Target, files: Sequence[Path], wish: ConvertOptions, out: Output) -> bool:
    """Whether all went well."""
    _stop_on_signals()
    with meter(printing=out.is_printing) as show:
        opened = _workshop(where, files) if where.service is None else where.opened()
        at_once = SENT_AT_ONCE if where.service else 2 * _slots()
        async with opened as place:
            room = asyncio.Semaphore(at_once)  # no need to have them all in the queue
            limits = {} if where.service else UNLIMITED
            runs = [_run(place, file, wish, limits, room, show) for file in files]
            return await _put_all(place, files, runs, out)


@asynccontextmanager
async def _workshop(where: Target, files: Sequence[Path]) -> AsyncIterator[Backend]:
    """A store and a worker for this run alone."""
    # Loaded here: a service elsewhere has its own.
    from .ephemeral_runtime import keep_cache, run_directory, user_directory, workshop
    from .local import LocalBackend as Here

    home = where.data_dir or user_directory()
    with run_directory(home) as directory:
        keep_cache(home, directory)
        storage = {
            "data_dir": directory,
            "mongodb_uri": None,
            "files": "directory",
            "source_roots": sorted({file.resolve().parent for file in files}),
        }
        media = {"keep_recording_mb": 0}  # who converts a recording has it
        settings = Target(config=where.config).settings(storage=storage, media=media)
        log_quietly(settings)
        async with workshop(settings, slots=_slots()) as job_service:
            yield Here(settings, job_service)


def _slots() -> int:
    return os.cpu_count() or 1


def _stop_on_signals() -> None:
    """As Ctrl-C does: whoever ends this leaves nothing behind."""
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)


async def _put_all(
    place: Backend,
    files: Sequence[Path],
    runs: Sequence[Coroutine[Any, Any, Document]],
    out: Output,
) -> bool:
    """In the order of the files, each as soon as it and all before it have ended."""
    tasks = [asyncio.create_task(run) for run in runs]
    well = True
    try:
        for file, task in zip(files, tasks, strict=True):
            try:
                await _put(place, file, await task, out)
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


async def _put(place: Backend, file: Path, job: Document, out: Output) -> None:
    if (error := job["error"]) is not None:
        failed = JobFailed(error["message"])
        failed.code = error["code"]
        raise failed
    with tempfile.TemporaryDirectory() as directory:
        out.put(await gathered(place, file, job, Path(directory)))


async def _run(
    place: Backend,
    file: Path,
    wish: ConvertOptions,
    limits: Document,
    room: asyncio.Semaphore,
    show: ProgressBar,
) -> Document:
    """The job when it has ended."""
    async with room:
        request = await asyncio.to_thread(request_for, file, wish)
        with show.job(file.name) as tell:
            job = await place.submit({**request, **limits}, file)
            try:
                return _light(await place.follow(job["job_id"], tell))
            except asyncio.CancelledError:
                await _give_up(place, job["job_id"])
                raise


def _light(job: Document) -> Document:
    """Without the texts that are in a file as well: there may be many files."""
    results = job["results"] or {}
    if results.get("markdown_file"):
        results = {name: results.get(name) for name in ("markdown_file", "assets", "subtitles")}
    return {**job, "results": results}


async def _give_up(place: Backend, job_id: str) -> None:
    """Nobody would fetch what comes of it."""
    with suppress(SecretaryError, TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            await place.change(job_id, "cancel")


def request_for(file: Path, wish: ConvertOptions) -> Document:
    """The job that converts a file: what it is says its content."""
    from ..core.file_types import detect_file_type as kind_of

    try:
        kind = kind_of(file)
    except OSError as error:
        raise InvalidParameters(error.strerror or "it cannot be read") from None
    job_type, more = _job_for(kind, wish)
    parameters = {"include_images": wish.images, **more}
    return {
        "job_type": job_type,
        "parameters": {key: value for key, value in parameters.items() if value is not None},
        "job_name": file.name[:500],
    }


def _job_for(kind: str | None, wish: ConvertOptions) -> tuple[str, dict[str, Any]]:
    """The job type, and the parameters that hold for it."""
    from ..core.file_types import AUDIO_TYPES as SOUND
    from ..core.file_types import IMAGE_TYPES as PICTURES
    from ..core.file_types import OFFICE_TYPES as OFFICE
    from ..core.file_types import VIDEO_TYPES as MOVING

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
