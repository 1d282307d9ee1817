"""Generates the reference docs of routes, job types and modules from the code.

`make docs` runs it. With --check it writes nothing and fails if a page is out of date."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import module_duties

from secretary.api import create_api
from secretary.api.legacy_routes import LEGACY_ROUTES
from secretary.handlers import BUILTIN
from secretary.handlers.parameters import LanguageParameters
from secretary.jobs.handler import Handler, Registry
from secretary.jobs.service import JobService
from secretary.storage.artifacts import JobFiles

DOCS = Path(__file__).parents[1] / "docs"
PART = "<!-- written by scripts/write_reference.py: {} -->\n"
END = "<!-- up to here -->"

#: The heading and a link to more details, by the tag of the routes.
TOPICS = {
    "ingress": (
        "Files and URLs",
        "See [Files and URLs](ingress.md) for fields, waiting and idempotency.",
    ),
    "jobs": ("Jobs", "See [Job types](job-types.md) for the parameters."),
    "batches": (
        "Batches",
        "See [Import a conference](../how-to/import-a-conference.md) for schedules.",
    ),
    "files": ("Job files", "See [The files of a job](ingress.md#the-files-of-a-job)."),
    "streams": ("Streams", "See [Streams](streams.md) for the events."),
    "templates": ("Templates", "See [Templates](templates.md)."),
    "overview": ("Overview", "See [Operations](operations.md#at-a-glance) for the fields."),
    "health": ("Health", "See [Operations](operations.md#health)."),
    "metrics": ("Metrics", "See [Metrics](metrics.md) for the full list."),
    "event-job": ("Legacy clients", "See [The event-job API](event-job.md)."),
}
#: Links to the description of each job type's results.
RESULTS = {
    "audio": "[Recordings](recordings.md#results)",
    "chat": "[Chat](models.md#chat)",
    "embedding": "[Embeddings](models.md#embeddings)",
    "imageanalyzer": "[Image analysis](models.md#image-analysis)",
    "imageocr": "[Documents](documents.md#results)",
    "office": "[Documents](documents.md#results)",
    "pdf": "[Documents](documents.md#results)",
    "selftest": "`structured_data {seconds, steps, python}`",
    "session": "[Conference talks](sessions.md#results)",
    "text2image": "[Image generation](models.md#image-generation)",
    "track": "[Tracks](tracks.md#results)",
    "transformer": "[Texts](transformer.md#results)",
    "video": "[Recordings](recordings.md#results)",
}


def main() -> None:
    registry = Registry(BUILTIN)
    job_service = JobService(None, registry, JobFiles(DOCS))  # type: ignore[arg-type]  # not used
    document = create_api(job_service).openapi()
    pages = {
        "reference/api.md": {"routes": "\n".join(routes(document))},
        "reference/job-types.md": {"job types": "\n".join(job_types())},
        "how-to/move-from-common-secretary.md": {"legacy routes": "\n".join(legacy_routes())},
        "explanation/architecture.md": {"modules": module_duties.table()},
    }
    stale = [name for name, parts in pages.items() if not put(DOCS / name, parts)]
    if stale and "--check" in sys.argv:
        sys.exit(f"Out of date: {', '.join(stale)}. Run `make docs`.")


def put(page: Path, parts: Mapping[str, str]) -> bool:
    """Update the page unless `--check` is given; return whether it was up to date."""
    before = after = page.read_text()
    for name, text in parts.items():
        start = after.index(PART.format(name)) + len(PART.format(name))
        after = f"{after[:start]}\n{text}\n{after[after.index(END, start) :]}"
    if after != before and "--check" not in sys.argv:
        page.write_text(after)
    return after == before


def routes(document: Mapping[str, Any]) -> Iterator[str]:
    rows_by_tag: dict[str, list[str]] = {tag: [] for tag in TOPICS}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            listed = rows_by_tag.setdefault(operation["tags"][0], [])
            listed.append(route(method.upper(), path, operation))
    for tag, rows in rows_by_tag.items():
        heading, more = TOPICS.get(tag, (tag.capitalize(), ""))
        yield f"### {heading}\n\n{more}\n"
        yield "| route | description | query parameters | status |\n|---|---|---|---|"
        yield "\n".join(rows) + "\n"


def route(method: str, path: str, operation: Mapping[str, Any]) -> str:
    query = [f"`{one['name']}`" for one in operation.get("parameters", ()) if one["in"] == "query"]
    statuses = sorted(status for status in operation["responses"] if status < "400")
    purpose = " ".join(operation["description"].partition("\n\n")[0].split())
    return f"| `{method} {path}` | {purpose} | {', '.join(query)} | {', '.join(statuses)} |"


def legacy_routes() -> Iterator[str]:
    outcomes = {"served": "served", "gone": "410", "unknown": "404"}
    yield "| route | status | note |\n|---|---|---|"
    for one in LEGACY_ROUTES:
        yield f"| `{one.method} {one.path}` | {outcomes[one.outcome]} | {one.note} |"


def job_types() -> Iterator[str]:
    shared = LanguageParameters.model_json_schema()["properties"]
    yield (
        "## Common parameters\n\nAccepted by every type below that reads a file or a web page."
        " `chat`, `embedding` and `text2image` accept only those for the cache.\n"
    )
    yield table(shared)
    for handler in BUILTIN:
        yield f"## {handler.job_type}\n"
        yield from job_type(handler, shared)


def job_type(handler: Handler[Any], shared: Mapping[str, Any]) -> Iterator[str]:
    hours = handler.timeout.total_seconds() / 3600 if handler.timeout else 0
    unit = "hour" if hours == 1 else "hours"
    limit = (
        f"{hours:g} {unit}"
        if hours
        else "[`generic_worker.timeout_sec`](settings.md#generic_worker)"
    )
    yield f"{purpose(handler)}\n"
    yield f"Timeout per attempt: {limit}. Attempts: at most {handler.max_attempts}."
    yield f"Results: {RESULTS[handler.job_type]}.\n"
    own = handler.parameters.model_json_schema()["properties"]
    yield table({name: field for name, field in own.items() if shared.get(name) != field})


def purpose(handler: Handler[Any]) -> str:
    """The summary of the handler's module, without the job type in front of it."""
    summary = (sys.modules[handler.run.__module__].__doc__ or "").partition(": ")[2]
    return summary[:1].upper() + summary[1:]


def table(fields: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for name, field in fields.items():
        meaning = field.get("description", "").replace("|", r"\|")
        rows.append(f"| `{name}` | {kind(field)} | {default(field)} | {meaning} |")
    return "\n".join(
        ["| parameter | type | default | description |", "|---|---|---|---|", *rows, ""]
    )


def kind(field: Mapping[str, Any]) -> str:
    """The type of a parameter, with its range."""
    some = next((one for one in field.get("anyOf", ()) if one.get("type") != "null"), field)
    if "enum" in some:
        return ", ".join(f"`{value}`" for value in some["enum"])
    names = {"array": "list"}
    name = names.get(some["type"], some["type"])
    least, most = some.get("minimum"), some.get("maximum")
    if least is not None and most is not None:
        return f"{name}, {least} to {most}"
    return f"{name}, {least} or more" if least is not None else name


def default(field: Mapping[str, Any]) -> str:
    value = field.get("default")
    shown = str(value).lower() if isinstance(value, bool) else value
    return "" if value is None else f"`{shown}`"


if __name__ == "__main__":
    main()
