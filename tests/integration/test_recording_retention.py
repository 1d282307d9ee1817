"""The recording is kept with its transcript: served with its own type, in ranges, while allowed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from .. import backends
from ..audio_files import sound, speech, video
from ..service_fixture import running_service
from ..web_server import WebRequest, serving

ROUTE = "/api/audio/process"


#: Files with the same words; the media type and the name they are served with.
PLAYED = {
    "a.mp3": ("audio/mpeg", "recording.mp3"),
    "a.m4a": ("audio/mp4", "recording.m4a"),
    "a.opus": ("audio/ogg", "recording.ogg"),
    "a.webm": ("audio/webm", "recording.weba"),
    "a.flac": ("audio/flac", "recording.flac"),
    "a.wav": ("audio/wav", "recording.wav"),
    "v.mp4": ("video/mp4", "recording.mp4"),
}


async def test_what_browsers_play_is_kept_and_served_as_what_it_is(tmp_path: Path) -> None:
    contents = {
        name: (video if name.startswith("v.") else sound)(name).read_bytes() for name in PLAYED
    }
    async with running_service(tmp_path) as service:
        reading = [service.read(ROUTE, content, "no.name") for content in contents.values()]
        all_results = await asyncio.gather(*reading)
        for (name, content), results in zip(contents.items(), all_results, strict=True):
            kind, file = PLAYED[name]
            recording_url = results["recording"]
            assert (recording_url["media_type"], recording_url["file_size"]) == (kind, len(content))
            assert recording_url["url"].endswith(f"/{file}") and recording_url["not_kept"] is None
            whole = await service.get(recording_url["url"])
            assert whole.headers["content-type"] == kind
            assert whole.headers["content-disposition"].startswith("inline")
            assert whole.content == content
            part = await service.client.get(
                recording_url["url"], headers={"Range": "bytes=100-299"}
            )
            assert (part.status_code, part.content) == (206, content[100:300])
            assert part.headers["content-range"] == f"bytes 100-299/{len(content)}"
            assert file not in await service.archived(results["archive_url"])
    assert await service.leftovers() == []


async def test_a_known_recording_can_be_played_too(tmp_path: Path) -> None:
    content = sound("a.mp3").read_bytes()
    async with running_service(tmp_path) as service:
        first = await service.read(ROUTE, content, "one.mp3")
        again = await service.read(ROUTE, content, "two.mp3")
        assert again["is_from_cache"]
        assert again["recording"]["url"] != first["recording"]["url"]
        assert (await service.get(again["recording"]["url"])).content == content


async def test_one_that_was_downloaded_is_kept(tmp_path: Path) -> None:
    content = sound("a.mp3").read_bytes()

    async def talk(request: WebRequest) -> None:
        await request.answer(content, headers={"Content-Type": "audio/mpeg"})

    async with (
        serving(talk) as site,
        running_service(tmp_path, network={"allow_hosts": "127.0.0.1"}) as service,
    ):
        job = await service.ended(await service.submit("audio", url=site.url("/talk.mp3")))
        assert job["status"] == "completed", job["error"]
        assert (await service.get(job["results"]["recording"]["url"])).content == content
    assert await service.leftovers() == []


@pytest.mark.skipif(bool(backends.KIND), reason="a blob store has a separate copy")
async def test_it_is_the_same_file_under_another_name(tmp_path: Path) -> None:
    """Nothing is copied: a file read from a source root is hard-linked."""
    (tmp_path / "root").mkdir()
    path = tmp_path / "root" / "talk.mp3"
    path.write_bytes(sound("a.mp3").read_bytes())
    storage = {"source_roots": [str(path.parent)]}
    async with running_service(tmp_path / "data", storage=storage) as service:
        job = await service.ended(await service.submit("audio", file_path="talk.mp3"))
        assert job["status"] == "completed", job["error"]
        (recording,) = (tmp_path / "data" / "jobs").rglob("recording.mp3")
        assert recording.samefile(path)
        await service.client.delete(f"/api/jobs/{job['job_id']}")
    assert path.exists() and not recording.exists()


async def test_where_it_is_not_kept_the_results_say_why(tmp_path: Path) -> None:
    async with running_service(tmp_path / "some") as service:
        for name in ("a.aiff", "a.mka"):
            results = await service.read(ROUTE, sound(name).read_bytes(), name)
            assert results["recording"]["not_kept"] == "not_playable"
    content = sound("a.mp3").read_bytes()
    async with running_service(tmp_path / "none", media={"keep_recording_mb": 0}) as service:
        results = await service.read(ROUTE, content, "a.mp3")
        nothing: dict[str, Any] = {"url": None, "media_type": None}
        assert results["recording"] == {**nothing, "file_size": len(content), "not_kept": "off"}
        assert results["transcription"]["segments"]


async def test_one_that_is_too_large_is_not_kept(tmp_path: Path) -> None:
    wave = bytearray(speech().read_bytes())
    padding = 1024 * 1024 + 10
    wave += b"LIST" + padding.to_bytes(4, "little") + bytes(padding)
    wave[4:8] = (len(wave) - 8).to_bytes(4, "little")
    async with running_service(tmp_path, media={"keep_recording_mb": 1}) as service:
        results = await service.read(ROUTE, bytes(wave), "long.wav")
        assert results["recording"]["not_kept"] == "too_large"
        assert results["transcription"]["segments"]
