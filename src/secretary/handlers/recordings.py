"""What jobs on sound and video do alike: look into the file, and get at its sound."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

from ..errors import FileTooLarge, UnsupportedFile
from ..handler import JobContext
from ..processors.media import sound
from ..processors.media.recording import Recording, SoundTrack
from ..processors.media.sound import Decoded, decoded_seconds
from ..processors.transcript import short_clock
from ..remote import Remote
from .documents import Document
from .listening import SoundProgress

PROBE: Remote[Recording] = Remote("processors.media.probe", "probe")
DECODE: Remote[Decoded] = Remote("processors.media.sound", "decode")

#: To look into a file takes no longer, however long the recording is.
PROBE_TIMEOUT = timedelta(minutes=2)
#: Decoding is hundreds of times as fast as playing; this is for a machine that is very busy.
DECODE_TIMEOUT = timedelta(hours=2)
#: The child that starts ffmpeg ends it, and says why; this is for a child that hangs.
GRACE = timedelta(seconds=30)
#: How often progress is told while ffmpeg works.
TELL_EVERY = 1.0


async def look_into(ctx: JobContext[Any], document: Document) -> Recording:
    probe = partial(
        PROBE, document.path, program=ctx.media.ffmpeg, timeout_s=PROBE_TIMEOUT.total_seconds()
    )
    recording = await ctx.run(probe, wall_time=PROBE_TIMEOUT + GRACE)
    limit = ctx.media.max_duration.total_seconds()
    if recording.duration is not None and recording.duration > limit:
        took, most = short_clock(recording.duration), short_clock(limit)
        text = f"The recording takes {took}; {most} at the most can be worked on"
        raise FileTooLarge(text, seconds=recording.duration, limit_seconds=limit)
    return recording


def chosen_track(recording: Recording, language: str | None) -> SoundTrack:
    """The one in the language that is asked for, else the one that players take."""
    track = sound.chosen_track(recording.sounds, language)
    if track is None:
        what = "The video has no sound track" if recording.pictures else "The file has no sound"
        raise UnsupportedFile(what)
    return track


async def decoded_sound(
    ctx: JobContext[Any], document: Document, recording: Recording, track: SoundTrack
) -> tuple[str, Decoded]:
    """The track as a raw file in scratch, from which any part can be read."""
    target = str(ctx.scratch / f"sound-{track.stream}.raw")
    limit = ctx.media.max_duration.total_seconds()
    decode = partial(
        DECODE,
        document.path,
        target,
        recording=recording,
        track=track,
        max_seconds=limit,
        timeout_s=DECODE_TIMEOUT.total_seconds(),
        program=ctx.media.ffmpeg,
    )
    progress = SoundProgress(
        ctx, "decoding", recording.duration or limit, first_percent=10, last_percent=15
    )
    telling = asyncio.create_task(_tell(target, progress))
    try:
        decoded = await ctx.run(decode, wall_time=DECODE_TIMEOUT + GRACE)
    finally:
        telling.cancel()
    for warning in decoded.warnings():
        await ctx.log(warning, "warning")
    return target, decoded


async def _tell(target: str, progress: SoundProgress) -> None:
    while True:
        await asyncio.sleep(TELL_EVERY)
        done = await asyncio.to_thread(decoded_seconds, target)
        await progress.advance(done - progress.done)
