"""Keeps the recording itself beside what was made of it, for those who want to listen along."""

import asyncio
import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..handler import JobContext
from .documents import Document
from .file_links import file_url

if TYPE_CHECKING:
    from ..processors.media.recording import Recording

#: What browsers play: the ending and the media type of each kind of file, as `file_kinds` tells.
SOUND: Mapping[str, tuple[str, str]] = {
    "mp3": (".mp3", "audio/mpeg"),
    "mp4": (".m4a", "audio/mp4"),
    "aac": (".aac", "audio/aac"),
    "ogg": (".ogg", "audio/ogg"),
    "webm": (".weba", "audio/webm"),
    "wav": (".wav", "audio/wav"),
    "flac": (".flac", "audio/flac"),
}
MOVING: Mapping[str, tuple[str, str]] = {
    "mp4": (".mp4", "video/mp4"),
    "webm": (".webm", "video/webm"),
}
#: A container that browsers know may hold what none of them decodes.
SOUND_CODECS = frozenset({"aac", "mp3", "opus", "vorbis", "flac"})
PICTURE_CODECS = frozenset({"h264", "vp8", "vp9", "av1", "hevc"})
#: WebM is a kind of Matroska, and says so in its first bytes; browsers know no other kind.
HEAD = 64

WhyNot = Literal["off", "too_large", "not_playable", "no_room"]


async def keep_recording(
    ctx: JobContext[Any], document: Document, recording: "Recording"
) -> dict[str, Any]:
    """For the results: where it is, or why it was not kept."""
    path = document.source.path
    form, why_not = await asyncio.to_thread(_form, path, document.kind, recording)
    size, limit = path.stat().st_size, ctx.media.keep_recording_bytes
    if form is not None and size > limit:
        form, why_not = None, "too_large" if limit else "off"
    name = f"recording{form[0]}" if form else ""
    if form is not None and not await asyncio.to_thread(_linked, path, ctx.directory / name):
        await ctx.log("There is no room to keep the recording with the results", "warning")
        form, why_not = None, "no_room"
    if form is None:
        return {"url": None, "media_type": None, "file_size": size, "not_kept": why_not}
    url = file_url(ctx.job, name)
    return {"url": url, "media_type": form[1], "file_size": size, "not_kept": None}


def _form(
    path: Path, kind: str | None, recording: "Recording"
) -> tuple[tuple[str, str] | None, WhyNot | None]:
    form = (MOVING if recording.pictures else SOUND).get(kind or "")
    if form is None or not _is_decoded(kind, recording):
        return None, "not_playable"
    if kind == "webm":
        with path.open("rb") as file:
            if b"webm" not in file.read(HEAD):
                return None, "not_playable"
    return form, None


def _is_decoded(kind: str | None, recording: "Recording") -> bool:
    """Players take the first track of each."""
    pictures, sounds = recording.pictures[:1], recording.sounds[:1]
    return all(track.codec in PICTURE_CODECS for track in pictures) and all(
        track.codec in SOUND_CODECS or (kind == "wav" and track.codec.startswith("pcm_"))
        for track in sounds
    )


def _linked(source: Path, target: Path) -> bool:
    """Another name for the same file: the upload or download loses its own when the job ends."""
    target.unlink(missing_ok=True)
    with suppress(OSError):  # another disk, or one without links
        os.link(source, target)
        return True
    try:
        shutil.copyfile(source, target)
    except OSError:
        target.unlink(missing_ok=True)
        return False
    return True
