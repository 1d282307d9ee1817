"""`secretary jobs result`: what a job has made, printed or as files."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Conflict, InvalidParameters, JobFailed
from .options import AsJson, Where, somewhere
from .output import print_json, say
from .place import FINAL, Document, Place, Status, name_in

#: The first of them that there is, is what was asked for.
TEXTS = ("markdown_content", "extracted_text", "text")
RESULTS_FILE = "results.json"


def add_to(app: typer.Typer) -> None:
    app.command()(result)


@somewhere
def result(
    where: Where,
    job_id: str,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write all its files to this directory instead"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print what came of a job: its Markdown or text, else its results as JSON."""

    async def work(place: Place) -> list[Path]:
        job = await place.job(job_id)
        _require_completed(job, where)
        if output is None:
            _print(job, as_json=as_json)
            return []
        return await _save(place, job, output)

    for path in where.work(work):
        say(str(path))


def _require_completed(job: Document, where: Where) -> None:
    job_id, error = job["job_id"], job["error"]
    if job["status"] not in FINAL:
        follow = f"secretary jobs watch {job_id}{where.again()}"
        raise Conflict(f"The job {job_id} is {job['status']}. Wait for it: {follow}")
    if job["status"] != Status.COMPLETED:
        why = f": {error['message']} ({error['code']})" if error else ""
        raise JobFailed(f"The job {job_id} has no results, it {_ended(job)}{why}")


def _ended(job: Document) -> str:
    return "failed" if job["status"] == Status.FAILED else "was cancelled"


def _print(job: Document, *, as_json: bool) -> None:
    results = job["results"] or {}
    text = next((results[name] for name in TEXTS if isinstance(results.get(name), str)), None)
    if as_json or not text:
        print_json(results)
    else:
        say(text.rstrip("\n"))


async def _save(place: Place, job: Document, output: Path) -> list[Path]:
    """Every file that the results name, and the results themselves."""
    results, saved = job["results"] or {}, []
    try:
        await asyncio.to_thread(output.mkdir, parents=True, exist_ok=True)
        for link, name in dict.fromkeys(_links(job["job_id"], results)):
            # A directory each: two files may have the same name in different directories.
            with tempfile.TemporaryDirectory(dir=output, prefix=".part-") as part:
                if (found := await place.file(job, link, Path(part))) is not None:
                    saved.append(await asyncio.to_thread(_copy, found, output / name, Path(part)))
        path = output / RESULTS_FILE
        path.write_text(json.dumps(results, indent=2, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise InvalidParameters(f"{output} cannot be written: {error.strerror}") from None
    return [*saved, path]


def _links(job_id: str, value: Any) -> Iterator[tuple[str, str]]:
    """All links to files of the job, wherever in the results they are."""
    match value:
        case str():
            if (name := name_in(job_id, value)) is not None:
                yield value, name
        case dict():
            for inner in value.values():
                yield from _links(job_id, inner)
        case list():
            for inner in value:
                yield from _links(job_id, inner)


def _copy(found: Path, target: Path, part: Path) -> Path:
    """Under its name there is never a part of it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if found.parent != part:
        found = Path(shutil.copyfile(found, part / "whole"))
    return found.replace(target)
