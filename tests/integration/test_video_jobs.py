"""Videos through the whole service: the transcript, and the slides with their text."""

import asyncio
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pytest

from ..audio_files import WORDS, made, speech
from ..service_fixture import running_service
from ..speech import word_error_rate
from ..video_files import film, five_slides, shown
from ..web_server import WebRequest, serving

ROUTE = "/api/video/process"
#: How long each slide is shown.
SECONDS = (4.0, 3.0, 5.0, 3.0, 4.0)
TITLES = (
    "The harvest of 1987",
    "Costs of heating",
    "The library",
    "Objections",
    "Questions and answers",
)


@cache
def talk(name: str = "talk.mp4") -> bytes:
    """Five slides; speech starts in the third second."""
    directory = Path(mkdtemp(prefix="video_jobs_"))
    pictures = film(directory / "pictures.mp4", shown(five_slides(), SECONDS))
    coding = {
        "talk.mp4": ("-c:v", "copy", "-c:a", "aac"),
        "talk.webm": ("-c:v", "libvpx", "-deadline", "realtime", "-c:a", "libopus"),
    }[name]
    sound = ("-filter_complex", "[1]adelay=3000[a]", "-map", "0:v", "-map", "[a]")
    metadata = directory / "chapters.txt"
    metadata.write_text(
        ";FFMETADATA1\ntitle=The annual meeting\n"
        "[CHAPTER]\nTIMEBASE=1/1\nSTART=0\nEND=7\ntitle=Harvest\n"
        "[CHAPTER]\nTIMEBASE=1/1\nSTART=7\nEND=19\ntitle=Library\n"
    )
    inputs = ("-i", pictures, "-i", speech(), "-i", metadata, "-map_metadata", "2")
    path = made(directory / name, *inputs, *sound, *coding)
    return path.read_bytes()


async def test_a_talk_becomes_a_transcript_and_its_slides(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        results = await service.read(ROUTE, talk(), "talk.mp4", include_slide_text=True)
        assert word_error_rate(WORDS, results["transcription"]["text"]) <= 0.05
        assert results["transcription"]["segments"][0]["start"] == pytest.approx(3, abs=0.5)
        frames = results["frames"]
        starts = [sum(SECONDS[:number]) for number in range(5)]
        assert [frame["time"] for frame in frames] == pytest.approx(starts, abs=0.5)
        for frame, title in zip(frames, TITLES, strict=True):
            assert title in frame["text"]
            picture = await service.get(frame["url"])
            assert picture.headers["content-type"] == "image/jpeg"
        assert [chapter["title"] for chapter in results["chapters"]] == ["Harvest", "Library"]
        assert "chapters" not in results["metadata"]
        markdown = results["markdown_content"]
        assert markdown.startswith(
            "# The annual meeting\n\n## Harvest (00:00)\n\n![00:00](frame_001"
        )
        assert markdown.index("frame_003.jpg") > markdown.index("## Library (00:07)")
        names = await service.archived(results["archive_url"])
        assert {f"frame_00{number}.jpg" for number in range(1, 6)} < set(names)
        again = await service.read(ROUTE, talk(), "other.mp4", include_slide_text=True)
        assert again["is_from_cache"]
        assert [frame["text"] for frame in again["frames"]] == [frame["text"] for frame in frames]
    assert await service.leftovers() == []


async def test_the_audio_of_a_video_is_transcribed_in_any_format(tmp_path: Path) -> None:
    async with running_service(tmp_path) as service:
        jobs = [
            service.read("/api/audio/process", talk(name), name)
            for name in ("talk.mp4", "talk.webm")
        ]
        for results in await asyncio.gather(*jobs):
            assert word_error_rate(WORDS, results["transcription"]["text"]) <= 0.05
            assert results["frames"] == []


async def test_a_video_without_sound_is_refused_unless_only_its_slides_are_wanted(
    tmp_path: Path,
) -> None:
    silent = film(tmp_path / "silent.mp4", shown(five_slides(), SECONDS)).read_bytes()
    async with running_service(tmp_path / "data") as service:
        error = await service.refused(ROUTE, silent, "silent.mp4")
        results = await service.read(ROUTE, silent, "silent.mp4", include_transcript=False)
    assert (error["code"], error["message"]) == (
        "UNSUPPORTED_FILE",
        "The video has no sound track",
    )
    assert len(results["frames"]) == 5
    assert results["transcription"] is None
    assert results["subtitles"] is None


async def test_subtitles_inside_the_file_are_used(tmp_path: Path) -> None:
    (tmp_path / "talk.mp4").write_bytes(talk())
    (tmp_path / "words.srt").write_text("1\n00:00:03,000 --> 00:00:05,000\nWritten by hand\n")
    inputs = ("-i", tmp_path / "talk.mp4", "-i", tmp_path / "words.srt")
    arguments = ("-map", "0", "-map", "1", "-c", "copy", "-c:s", "mov_text")
    language = ("-metadata:s:s:0", "language=eng")
    path = made(tmp_path / "with.mp4", *inputs, *arguments, *language)
    async with running_service(tmp_path / "data") as service:
        results = await service.read(ROUTE, path.read_bytes(), "with.mp4", include_frames=False)
    assert results["transcription"]["text"] == "Written by hand"
    assert results["metadata"]["subtitles"] == "inside the file"


class TestUrls:
    async def test_a_file_is_downloaded(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(talk(), headers={"Content-Type": "video/mp4"})

        allowed = {"allow_hosts": ["127.0.0.1"]}
        async with serving(answer) as web, running_service(tmp_path, network=allowed) as service:
            body = {"url": web.url("/talks/annual.mp4"), "include_frames": False, "async": True}
            response = await service.client.post("/api/video/youtube", json=body)
            job = await service.ended(response.json()["job_id"])
        assert job["status"] == "completed", job["error"]
        assert word_error_rate(WORDS, job["results"]["transcription"]["text"]) <= 0.05
        assert job["results"]["metadata"]["file_name"] == "annual.mp4"

    async def test_a_page_is_read_for_its_video_and_subtitles(self, tmp_path: Path) -> None:
        page = (
            b"<html><head><title>The annual meeting</title></head><body>"
            b"<video src='/talk.mp4'><track kind='subtitles' srclang='en' src='/talk.vtt'></video>"
            b"</body></html>"
        )
        vtt = b"WEBVTT\n\n00:00.000 --> 00:02.000\nWritten by hand\n"
        files = {
            "/page": (page, "text/html"),
            "/talk.mp4": (talk(), "video/mp4"),
            "/talk.vtt": (vtt, "text/vtt"),
        }

        async def answer(request: WebRequest) -> None:
            content, kind = files[request.target]
            await request.answer(content, headers={"Content-Type": kind})

        allowed = {"allow_hosts": ["127.0.0.1"]}
        async with serving(answer) as web, running_service(tmp_path, network=allowed) as service:
            job = await service.ended(await service.submit("video", url=web.url("/page")))
        assert job["status"] == "completed", job["error"]
        assert job["results"]["transcription"]["text"] == "Written by hand"
        assert len(job["results"]["frames"]) == 5
        assert job["results"]["metadata"]["title"] == "The annual meeting"
