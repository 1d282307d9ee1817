"""The tracks of conferences: talks that completed session jobs have written, grouped by track.

They are looked up among the jobs and not in the directory tree of all talks: a job says who may
read it, a file in that tree does not, and only the machine that wrote it has it.
"""

import json
import unicodedata
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from ..core.errors import NotFound
from ..core.job import Job, JobStatus
from ..core.languages import is_same_language
from ..store import JobQuery
from .service import PAGE_SIZE, RESULTS, JobService

#: The newest talks; older ones are left out.
MAX_SESSIONS = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackSession:
    """A document about a talk."""

    job: Job
    title: str
    language: str
    event: str
    track: str
    #: `sessions/[@<user>/]<Event>/<language>/<Track>`.
    directory: PurePosixPath
    #: The same for all translations of a talk.
    assets: str


@dataclass(frozen=True, slots=True)
class Track:
    name: str
    event: str
    #: Newest first; with all translations of each talk.
    sessions: Sequence[TrackSession]

    def talks(self, language: str | None) -> list[TrackSession]:
        """Each talk once, in this language if possible, oldest first."""
        talks: dict[str, TrackSession] = {}
        for session in self.sessions:
            known = talks.setdefault(session.assets, session)
            is_wanted = bool(language) and is_same_language(session.language, language)
            if is_wanted and not is_same_language(known.language, language):
                talks[session.assets] = session
        return [*reversed(talks.values())]

    def is_named(self, name: str) -> bool:
        own = (self.name, *(session.directory.name for session in self.sessions[:1]))
        return _key(name) in map(_key, own)


async def list_tracks(job_service: JobService, *, user: str | None) -> list[Track]:
    """The tracks of all talks that this user may read, newest first."""
    query = JobQuery(
        job_type="session",
        status=frozenset({JobStatus.COMPLETED}),
        archived=False,
        visible_to=user,
        include=RESULTS,
        limit=PAGE_SIZE,
    )
    by_track: dict[tuple[str, str], list[TrackSession]] = {}
    count = 0
    while count < MAX_SESSIONS:
        page = await job_service.store.find(query)
        for session in filter(None, map(_session, page.items)):
            key = (session.directory.parts[-3], session.directory.name)
            by_track.setdefault(key, []).append(session)
        count += len(page.items)
        if page.next_cursor is None:
            break
        query = query.model_copy(update={"cursor": page.next_cursor})
    tracks = by_track.values()
    return [Track(sessions[0].track, sessions[0].event, sessions) for sessions in tracks]


def _session(job: Job) -> TrackSession | None:
    results = job.results or {}
    metadata, directory = results.get("metadata") or {}, results.get("target_dir")
    path = PurePosixPath(directory) if isinstance(directory, str) else PurePosixPath()
    if len(path.parts) not in (4, 5) or not isinstance(metadata, dict):
        return None  # not of a built-in handler
    # Without the folder of the user, which jobs of older versions do not have.
    assets = "/".join(PurePosixPath(str(results.get("asset_dir"))).parts[-3:])
    return TrackSession(
        job=job,
        title=str(metadata.get("session") or metadata.get("title") or ""),
        language=str(metadata.get("language") or path.parts[-2]),
        event=str(metadata.get("event") or path.parts[-3]),
        track=str(metadata.get("track") or path.name),
        directory=path,
        assets=f"{job.user_id or ''}/{assets}",
    )


def find_track(tracks: Iterable[Track], name: str, *, event: str | None = None) -> Track:
    """The track of this name, also if a client has encoded the name twice. If several events have
    one, the newest is meant, unless `event` says otherwise."""
    for spelling in dict.fromkeys((name, unquote(name))):
        for track in tracks:
            if track.is_named(spelling) and event in (None, "", track.event):
                return track
    of_event = f" of {event}" if event else ""
    raise NotFound(f"There is no track {name}{of_event}, or it has no talks that you may read")


def _key(name: str) -> str:
    return unicodedata.normalize("NFC", " ".join(name.split())).casefold()


async def encode_talks(
    job_service: JobService, talks: Sequence[TrackSession]
) -> AsyncIterator[bytes]:
    """One line of JSON for each talk, as the handler of `track` jobs reads it."""
    for talk in talks:
        results = (await job_service.files.load_results(talk.job)).results or {}
        speakers = (results.get("metadata") or {}).get("speakers") or []
        line: dict[str, Any] = {
            "title": talk.title,
            "speakers": speakers,
            "markdown": results.get("markdown_content") or "",
        }
        yield json.dumps(line).encode() + b"\n"
