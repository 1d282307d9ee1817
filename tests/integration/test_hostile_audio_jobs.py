"""Malicious recordings, submitted to the whole service: each is rejected with an error code."""

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

from secretary.media.ffmpeg import run_ffmpeg

from ..audio_files import RATE, sound, speech
from ..service_fixture import ServiceClient, running_service
from ..web_server import WebRequest, serving

ROUTE = "/api/audio/process"
YEAR = 365 * 86400.0


def wav(channels: int, frames: bytes, *, claimed: int | None = None) -> bytes:
    """A WAV whose header may claim more than there is."""
    size = len(frames) if claimed is None else claimed
    width = 2 * channels
    form = struct.pack("<HHIIHH", 1, channels, RATE, RATE * width, width & 0xFFFF, 16)
    head = b"RIFF" + struct.pack("<I", min(36 + size, 0xFFFFFFFF)) + b"WAVEfmt "
    return head + struct.pack("<I", 16) + form + b"data" + struct.pack("<I", size) + frames


def declared_for_a_year() -> bytes:
    """A Matroska file that claims to be a year long."""
    content = bytearray(sound("a.mka").read_bytes())
    at = content.index(b"\x44\x89\x88") + 3  # the duration, eight bytes, in milliseconds
    content[at : at + 8] = struct.pack(">d", YEAR * 1000)
    return bytes(content)


async def test_bad_files_are_refused_by_name(tmp_path: Path) -> None:
    files = {
        "torn.wav": (b"RIFF\x24\0\0\0WAVEfmt ", "FILE_CORRUPT"),
        "torn.mp3": (sound("a.mp3").read_bytes()[:60], "FILE_CORRUPT"),
        "torn.flac": (b"fLaC" + bytes(100), "FILE_CORRUPT"),
        "many.wav": (wav(300, bytes(600 * 100)), "UNSUPPORTED_FILE"),
        "noise.mp3": (b"ID3\x04" + bytes(range(256)) * 40, "FILE_CORRUPT"),
    }
    async with running_service(tmp_path) as service:
        jobs = [service.refused(ROUTE, content, name) for name, (content, _) in files.items()]
        errors = await asyncio.gather(*jobs)
    for (name, (_, code)), error in zip(files.items(), errors, strict=True):
        assert error["code"] == code, f"{name}: {error}"
        assert str(tmp_path) not in str(error)
    assert await service.leftovers(uploads=False) == []


async def test_what_is_no_sound_is_refused_whatever_its_name(tmp_path: Path) -> None:
    files = {"page.mp3": b"Not a sound but a text.\n" * 50, "empty.wav": b""}
    roots = {"source_roots": [str(tmp_path)]}
    async with running_service(tmp_path / "data", storage=roots) as service:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content)
            response = await service.client.post(ROUTE, files={"file": (name, content)})
            assert response.status_code == 415
            job = await service.ended(await service.submit("audio", file_path=name))
            assert job["error"]["code"] in ("UNSUPPORTED_FILE", "FILE_CORRUPT"), name


async def test_a_year_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "a.mka").write_bytes(declared_for_a_year())
    output = run_ffmpeg(["-i", str(tmp_path / "a.mka")], timeout_s=20, level="info").stderr
    assert "Duration: 8760:00:00" in output, "ffmpeg believes it"
    async with running_service(tmp_path / "data", media={"max_duration_hours": 1}) as service:
        results = await service.read(ROUTE, declared_for_a_year(), "a.mka")
    assert results["metadata"]["duration"] < 60


async def test_a_claim_of_hours_costs_nothing(tmp_path: Path) -> None:
    """The header claims four gigabytes; there are ten seconds."""
    frames = speech().read_bytes()[44:]
    async with running_service(tmp_path) as service:
        results = await service.read(ROUTE, wav(1, frames, claimed=0xFFFFFFF0), "a.wav")
    assert results["metadata"]["duration"] < 60


@pytest.mark.parametrize("kind", ["audio/mpeg", "application/octet-stream"])
async def test_a_url_that_never_ends_is_given_up(tmp_path: Path, kind: str) -> None:
    async def answer(request: WebRequest) -> None:
        await request.send(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n\r\n".encode())
        while True:
            await request.send(bytes(65536))
            await asyncio.sleep(0.001)

    network = {"allow_hosts": ["127.0.0.1"], "download_max_mb": 2, "download_timeout_sec": 20}
    async with serving(answer) as web, running_service(tmp_path, network=network) as service:
        job = await service.ended(await service.submit("audio", url=web.url("/endless.mp3")))
    assert job["error"]["code"] == "FILE_TOO_LARGE"
    assert await service.leftovers() == []


async def test_a_url_that_drips_is_given_up(tmp_path: Path) -> None:
    async def answer(request: WebRequest) -> None:
        await request.send(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n")
        while True:
            await request.send(b"x")
            await asyncio.sleep(0.1)

    network = {"allow_hosts": ["127.0.0.1"], "download_timeout_sec": 2}
    async with serving(answer) as web, running_service(tmp_path, network=network) as service:
        job_id = await service.submit("video", url=web.url("/drips.mp4"))
        async with asyncio.timeout(60):
            while not (errors := [one["error"] for one in await attempts(service, job_id)]):
                await asyncio.sleep(0.05)
        await service.client.post(f"/api/jobs/{job_id}/cancel")
    assert errors[0]["code"] == "DOWNLOAD_FAILED"


async def attempts(service: ServiceClient, job_id: str) -> list[dict[str, Any]]:
    """The processes that have exited."""
    return [one for one in (await service.job(job_id))["attempts"] if one["ended_at"]]
