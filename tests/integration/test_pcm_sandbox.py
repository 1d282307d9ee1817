"""Decoding in a child process with limits, as in a worker."""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from secretary.core import processes
from secretary.core.errors import ProcessingTimeout
from secretary.media.pcm import DecodedAudio, decode_audio, decoded_seconds, select_audio_track
from secretary.media.probe import Recording, probe
from secretary.media.speech.engines import SAMPLE_RATE
from secretary.worker.sandbox import Limits, Sandbox

from ..audio_files import length_of, long_silence, sound, speech


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(1)
    await sandbox.open()
    yield sandbox
    await sandbox.close()


def decoding(path: Path, into: Path, recording: Recording) -> "partial[DecodedAudio]":
    track = select_audio_track(recording.audio_tracks)
    assert track is not None
    return partial(
        decode_audio, str(path), str(into), recording=recording, track=track, max_seconds=1e5,
        timeout_s=100.0,
    )  # fmt: skip


def programs() -> list[str]:
    """The ffmpeg processes below this one."""
    results = []
    for process in processes.descendants(os.getpid()):
        try:
            line = Path(f"/proc/{process.pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "ffmpeg" in line.partition("\0")[0]:
            results.append(line)
    return results


async def test_a_recording_goes_in_and_samples_come_out(tmp_path: Path, sandbox: Sandbox) -> None:
    path = sound("a.m4a")
    recording = await sandbox.run(probe, str(path))
    assert recording.duration == pytest.approx(length_of(speech()), abs=0.1)
    decoded = await sandbox.run(decoding(path, tmp_path / "raw", recording))
    assert decoded.seconds == pytest.approx(length_of(speech()), abs=0.05)
    assert (tmp_path / "raw").stat().st_size == round(decoded.seconds * SAMPLE_RATE) * 2


async def test_what_is_ended_leaves_no_program_behind(tmp_path: Path, sandbox: Sandbox) -> None:
    path = long_silence(tmp_path / "long.wav", 8 * 3600)
    recording = await sandbox.run(probe, str(path))
    limits = Limits(wall_time=timedelta(seconds=1))
    with pytest.raises(ProcessingTimeout):
        await sandbox.run(decoding(path, tmp_path / "raw", recording), limits=limits)
    assert programs() == []


async def test_what_is_cancelled_leaves_no_program_behind(tmp_path: Path, sandbox: Sandbox) -> None:
    path = long_silence(tmp_path / "long.wav", 8 * 3600)
    into = tmp_path / "raw"
    recording = await sandbox.run(probe, str(path))
    work = asyncio.create_task(sandbox.run(decoding(path, into, recording)))
    async with asyncio.timeout(30):
        while not decoded_seconds(str(into)):
            await asyncio.sleep(0.01)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert programs() == []


async def test_memory_has_a_limit_that_is_enough(tmp_path: Path, sandbox: Sandbox) -> None:
    path = long_silence(tmp_path / "long.wav", 3600)
    recording = await sandbox.run(probe, str(path))
    limits = Limits(wall_time=timedelta(seconds=60), memory_bytes=256 * 1024 * 1024)
    decoded = await sandbox.run(decoding(path, tmp_path / "raw", recording), limits=limits)
    assert decoded.seconds == 3600
