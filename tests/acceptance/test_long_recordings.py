"""Two hours of audio: memory use does not grow, and a worker that dies loses no chunk."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from secretary.core import processes
from secretary.core.job import Job, JobStatus
from secretary.storage.artifacts import JobFiles
from secretary.store import Store, open_store

from ..audio_files import made, speech
from ..polling import until
from ..speech import word_error_rate
from .service import WorkerProcess, ended, environment

WORDS = (
    "The committee met on Tuesday morning to discuss the new library. Several members asked whether"
    " the building would be ready before winter."
)
#: Spoken at the beginning of each interval of this many seconds; the rest is silence.
STRETCH, STRETCHES = 300, 24
HOURS = STRETCH * STRETCHES / 3600
#: Limits for one transcribing process and for all processes including the worker, with a margin.
MEBIBYTE = 1024 * 1024
MOST_OF_ONE, MOST_GROWTH = 600 * MEBIBYTE, 100 * MEBIBYTE


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    (tmp_path / "data").mkdir()
    store = open_store(f"sqlite://{tmp_path}/data/secretary.db")
    await store.open()
    yield store
    await store.close()


def recording(directory: Path) -> Path:
    """Two hours, made by repetition."""
    stretch = made(
        directory / "stretch.flac", "-i", speech(WORDS), "-af", f"apad=whole_dur={STRETCH}"
    )
    loop = ("-stream_loop", str(STRETCHES - 1), "-i", stretch)
    return made(directory / "long.ogg", *loop, "-c:a", "libvorbis", "-ar", "16000")


def transcribed_chunks(data_dir: Path) -> Counter[int]:
    """How often each chunk has been transcribed."""
    lines = (
        line
        for records in data_dir.glob("cache/speech/*/*/records-*")
        for line in records.read_bytes().splitlines(keepends=True)
    )
    return Counter(int(line.split(b" ")[0]) for line in lines if line.endswith(b"\n"))


async def largest(worker: WorkerProcess) -> tuple[int, int]:
    """The largest process, and the sum of all."""
    tree = processes.tree(worker.pid)
    sizes = [process.rss_bytes for process in tree] or [0]
    return max(sizes), sum(sizes)


@pytest.mark.timeout(400)
async def test_two_hours_are_transcribed_in_constant_memory_though_the_worker_dies(
    store: Store, tmp_path: Path
) -> None:
    recording(tmp_path)
    env = environment(
        tmp_path / "data",
        SECRETARY_STORAGE__SOURCE_ROOTS=f"['{tmp_path}']",
        SECRETARY_GENERIC_WORKER__PROCESSES="2",
    )
    job = Job(job_type="audio", parameters={"file_path": "long.ogg", "source_language": "en"})
    await store.add([job])
    first = WorkerProcess(env, tmp_path / "first.log")

    async def begun() -> bool:
        return len(transcribed_chunks(tmp_path / "data")) >= 2

    try:
        await until(begun, seconds=120, what="the first pieces")
    finally:
        first.kill()
    before = transcribed_chunks(tmp_path / "data")
    second = WorkerProcess(env, tmp_path / "second.log")
    sizes: list[tuple[int, int]] = []
    watching = asyncio.create_task(_watch(second, sizes, tmp_path / "data", len(before)))
    try:
        done = await ended(store, job.job_id, seconds=250)
    finally:
        watching.cancel()
        second.terminate()
    assert done.status is JobStatus.COMPLETED, done.error
    after = transcribed_chunks(tmp_path / "data")
    assert len(before) < len(after)
    assert all(after[number] == 1 for number in before), "no finished chunk is transcribed again"
    results = (await JobFiles(tmp_path / "data").load_results(done)).results
    assert results is not None
    segments = results["transcription"]["segments"]
    starts = [one["start"] for one in segments if one["text"].lower().startswith("the committee")]
    assert starts == pytest.approx([STRETCH * number for number in range(STRETCHES)], abs=0.5)
    assert word_error_rate(" ".join([WORDS] * STRETCHES), results["transcription"]["text"]) < 0.05
    assert results["metadata"]["duration"] == pytest.approx(HOURS * 3600, abs=1)
    assert max(one for one, _ in sizes) < MOST_OF_ONE
    early, late = sizes[: len(sizes) // 3], sizes[len(sizes) // 3 :]
    assert max(total for _, total in late) - max(total for _, total in early) < MOST_GROWTH


async def _watch(
    worker: WorkerProcess, sizes: list[tuple[int, int]], data_dir: Path, expected_chunks: int
) -> None:
    """Wait until the engines are loaded: each has transcribed a chunk."""
    while len(transcribed_chunks(data_dir)) < expected_chunks + 2:
        await asyncio.sleep(0.1)
    while True:
        sizes.append(await largest(worker))
        await asyncio.sleep(0.1)
