"""Where a recording comes from: a file, or a site that has something to say about it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..engines.language_names import language_code
from ..file_names import safe_name
from ..handler import JobContext
from ..job import Progress
from ..processors.media.recording import Chapter
from ..sources import SourceFile, named_source
from .documents import Document, begin, checked
from .existing_subtitles import Subtitles

if TYPE_CHECKING:
    from ..sites.media import SiteMedia, Want

MEGABYTE = 1_000_000
#: So much of the progress is the download's.
FIRST_PERCENT, LAST_PERCENT = 5, 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What the place that the recording came from says about it."""

    title: str | None = None
    #: What is spoken, two letters.
    language: str | None = None
    chapters: Sequence[Chapter] = ()
    subtitles: Sequence[Subtitles] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


async def find_recording(
    ctx: JobContext[Any], kinds: frozenset[str], want: "Want"
) -> tuple[Document, Origin]:
    await begin(ctx)
    how, value = named_source(ctx.parameters)
    if how != "url":
        return await checked(await ctx.source(), kinds), Origin()
    from ..sites.choice import media_source  # most recordings are files
    from ..sites.media import SiteMedia, SiteRequest

    asked = ctx.parameters.source_language
    request = SiteRequest(
        url=str(value),
        into=ctx.scratch,
        want=want,
        allow_hosts=ctx.sources.allow_hosts,
        limits=ctx.sources.limits,
        max_duration=ctx.media.max_duration,
        languages=tuple(filter(None, [language_code(asked or "")])),
    )
    found = await media_source(request, ctx.run, _teller(ctx))
    if isinstance(found, SiteMedia):
        source = SourceFile(found.path, _name_of(found))
        return await checked(source, kinds), _origin(found)
    return await checked(found, kinds), Origin()


def _name_of(found: "SiteMedia") -> str:
    return safe_name(f"{found.title or found.site}{Path(found.path).suffix}")


def _origin(found: "SiteMedia") -> Origin:
    told = {
        "page_url": found.page_url,
        "site": found.site,
        "description": found.description,
        "uploader": found.uploader,
        "uploaded_on": found.uploaded_on.isoformat() if found.uploaded_on else None,
    }
    return Origin(
        title=found.title,
        language=language_code(found.language or ""),
        chapters=found.chapters,
        subtitles=[
            Subtitles(
                origin=f"from {found.site}",
                language=language_code(one.language),
                path=one.path,
            )
            for one in found.subtitles
        ],
        facts={name: value for name, value in told.items() if value is not None},
    )


def _teller(ctx: JobContext[Any]) -> Callable[[int, int | None], None]:
    def tell(done: int, total: int | None) -> None:
        share = min(done / total, 1.0) if total else 0.0
        of = f" of {total / MEGABYTE:,.1f}" if total else ""
        ctx.reporter.progress(
            Progress(
                step="downloading_or_opening",
                percent=FIRST_PERCENT + int((LAST_PERCENT - FIRST_PERCENT) * share),
                message=f"{done / MEGABYTE:,.1f}{of} MB are here",
            )
        )

    return tell
