"""Conference talks through the whole service: page, video and slides become one document."""

import base64
import io
import json
import posixpath
import re
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from ..audio_files import WORDS
from ..client_front_matter import client_front_matter
from ..llm_server import KEY, Reads, llm_server, says
from ..service_fixture import ServiceClient, running_service
from ..speech import word_error_rate
from ..video_files import five_slides, slide
from ..web_server import Web, WebRequest, serving
from .test_video_jobs import SECONDS, talk

PAGE = """<!DOCTYPE html><html lang="en">
<head><title>FOSDEM 2025 - Forked Communities</title></head>
<body><h1>Forked Communities</h1>
<p>What happens to a community when its project is licensed anew? We look at three forks and
at what became of the people who worked on them.</p>
<p>{injected}</p>
<ul><li><a href="/talk.mp4">Video recording (mp4)</a></li>
<li><a href="/slides.pdf">Slides</a></li>
<li><a href="https://example.org/paper">The paper</a></li></ul></body></html>"""
SLIDES = ["Three forks", "What the numbers say", "Questions"]


@cache
def slides() -> bytes:
    file = io.BytesIO()
    canvas = Canvas(file, pagesize=(480, 270))
    for title in SLIDES:
        canvas.setFont("Helvetica", 24)
        canvas.drawString(40, 200, title)
        canvas.showPage()
    canvas.save()
    return file.getvalue()


@asynccontextmanager
async def conference(**changed: tuple[bytes, str] | None) -> AsyncIterator[Web]:
    """Its website; files by their names without extension, None for missing ones."""
    files: dict[str, tuple[bytes, str] | None] = {
        "/event": (PAGE.format(injected="").encode(), "text/html"),
        "/talk.mp4": (talk(), "video/mp4"),
        "/slides.pdf": (slides(), "application/pdf"),
    }
    files |= {path: value for path, value in changed.items()}

    async def answer(request: WebRequest) -> None:
        content = files.get(request.target)
        if content is None:
            await request.answer(b"gone", status="404 Not Found")
        else:
            await request.answer(content[0], headers={"Content-Type": content[1]})

    async with serving(answer) as web:
        yield web


def seed_example(web: Web, **more: Any) -> dict[str, Any]:
    """The parameters of the example in the original documents, for our own conference."""
    return {
        "event": "FOSDEM 2025",
        "session": "Forked Communities: Project Re-licensing and Community Impact",
        "url": web.url("/event"),
        "filename": "Forked-Communities-Project-Relicensing-and-Community-Impact.md",
        "track": "Main-Track-Janson-7",
        "day": "Saturday",
        "starttime": "17:00",
        "endtime": "17:50",
        "speakers": ["Dawn M Foster", "Brian Proffitt", "Stephen  Walli", "Ben Ford"],
        "attachments_url": web.url("/slides.pdf"),
        "source_language": "en",
        "target_language": "de",
        "use_cache": True,
        "extra": {"create_archive": True, "template": "Session"},
        **more,
    }


ALLOWED = {"allow_hosts": ["127.0.0.1"]}


async def done(service: ServiceClient, **parameters: Any) -> dict[str, Any]:
    job = await service.ended(await service.submit("session", **parameters))
    assert job["status"] == "completed", job["error"]
    results: dict[str, Any] = job["results"]
    return results


def front_matter(markdown: str) -> dict[str, Any]:
    match = re.match(r"---\n(.*?)^---$", markdown, re.DOTALL | re.MULTILINE)
    assert match is not None
    fields: dict[str, Any] = yaml.safe_load(match[1])
    return fields


def filled_in(request: Mapping[str, Any]) -> Any:
    """A model that fills every field of the form with a short form of its instruction."""
    schema = request["response_format"]["json_schema"]["schema"]
    answer: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        answer[name] = (
            ["Eins: zwei", 'Das "dritte"'] if field["type"] == "array" else f"Über {name}"
        )
    answer["title"] = 'Gespaltene Gemeinschaften: "Forks" & Folgen'
    return says(json.dumps(answer, ensure_ascii=False))


class TestWithoutAModel:
    async def test_the_document_is_complete_and_says_that_it_has_no_summary(
        self, tmp_path: Path
    ) -> None:
        async with conference() as web, running_service(tmp_path, network=ALLOWED) as service:
            results = await done(service, **seed_example(web, target_language="en"))
            markdown = results["markdown_content"]
            fields = front_matter(markdown)
            assert (
                fields["title"] == "Forked Communities: Project Re-licensing and Community Impact"
            )
            assert fields["speakers"] == [
                "Dawn M Foster",
                "Brian Proffitt",
                "Stephen  Walli",
                "Ben Ford",
            ]
            assert fields["video_url"] == web.url("/talk.mp4")
            assert "no language model is set" in markdown
            assert "three forks" in markdown
            assert word_error_rate(WORDS, results["video_transcript"]) <= 0.05
            for title in SLIDES:
                assert title in markdown
            path = (
                "sessions/FOSDEM 2025/en/Main-Track-Janson-7/"
                "Forked-Communities-Project-Relicensing-and-Community-Impact.md"
            )
            assert results["markdown_file"].endswith(path.replace(" ", "%20"))
            assert (await service.get(results["markdown_file"])).text == markdown
            names = set(await service.archived(results["archive_url"]))
            assert path.removeprefix("sessions/") in names
            assert (tmp_path / path).read_text() == markdown
            # Three pages, and five frames of a video that shows something else.
            assert len(linked_files(markdown, path, names, tmp_path)) == 3 + 5 + 3
            assert missing(results) == {"summary": "ENGINE_UNAVAILABLE", "slide_times": "NOT_FOUND"}
        assert await service.leftovers() == []

    async def test_a_waiting_client_receives_document_and_archive(self, tmp_path: Path) -> None:
        gone = {"/talk.mp4": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            for create_archive in (True, False):
                body = seed_example(web, target_language="en", create_archive=create_archive)
                response = await service.client.post("/api/session/process", json=body)
                assert response.status_code == 200, response.text
                output = response.json()["data"]["output"]
                assert "# Forked Communities" in output["markdown_content"]
                assert ("archive_data" in output) is create_archive
                if create_archive:
                    archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(output["archive_data"])))
                    names = archive.namelist()
                    member = output["markdown_file"].removeprefix("sessions/")
                    assert archive.read(member).decode() == output["markdown_content"]
                    assert not any(name.startswith("sessions/") for name in names)
                    assert all(name.startswith("FOSDEM 2025/") for name in names)
                    images = [slide["image_url"] for slide in output["slides"]]
                    assert len(images) == 3 and set(images) < set(names)
                    assert [slide["title"] for slide in output["slides"]] == SLIDES
                    assert "archive_root" not in output
                    job = (await service.get(response.headers["location"])).json()["data"]
                    assert "archive_data" not in job["results"]

    async def test_what_is_gone_is_named(self, tmp_path: Path) -> None:
        gone: Any = {"/talk.mp4": None, "/slides.pdf": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            results = await done(service, **seed_example(web, target_language=None))
        assert missing(results) == {
            "video": "DOWNLOAD_FAILED",
            "slides": "DOWNLOAD_FAILED",
            "summary": "ENGINE_UNAVAILABLE",
        }
        assert "## Not available" in results["markdown_content"]
        assert "/slides.pdf" in results["markdown_content"]

    async def test_a_talk_of_which_nothing_is_left_fails(self, tmp_path: Path) -> None:
        gone: Any = {"/event": None, "/talk.mp4": None, "/slides.pdf": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            job_id = await service.submit("session", **seed_example(web, max_attempts=1))
            job = await service.ended(job_id)
        assert job["status"] == "failed"
        assert job["error"]["code"] == "DOWNLOAD_FAILED"

    async def test_subtitles_of_the_organisers_are_used_and_no_video_is_fetched(
        self, tmp_path: Path
    ) -> None:
        vtt = b"WEBVTT\n\n00:00.000 --> 00:02.000\nWritten by the organisers\n"
        more: Any = {"/talk.vtt": (vtt, "text/vtt"), "/talk.mp4": None}
        async with conference(**more) as web, running_service(tmp_path, network=ALLOWED) as service:
            example = seed_example(web, subtitles_url=web.url("/talk.vtt"), target_language="en")
            results = await done(service, **example)
        assert results["video_transcript"].strip() == "Written by the organisers"
        assert missing(results) == {"summary": "ENGINE_UNAVAILABLE"}

    async def test_a_transcript_of_the_client_is_used_and_no_video_is_fetched(
        self, tmp_path: Path
    ) -> None:
        gone: Any = {"/talk.mp4": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            given = {"video_transcript": "Said by the *speaker*", "video_url": web.url("/talk.mp4")}
            more = {"target": "obsidian", "target_language": "en"}
            results = await done(service, **seed_example(web, **given, **more))
        assert results["video_transcript"] == "Said by the *speaker*"
        assert "Said by the *speaker*" in results["markdown_content"]
        assert missing(results) == {"summary": "ENGINE_UNAVAILABLE"}

    async def test_frames_of_the_video_stand_for_missing_slides_and_can_be_opened(
        self, tmp_path: Path
    ) -> None:
        gone: Any = {"/slides.pdf": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            example = seed_example(web, target_language="en", attachments_url=None)
            results = await done(service, **example)
            names = set(await service.archived(results["archive_url"]))
        path = f"{results['target_dir']}/{Path(results['markdown_file']).name}"
        linked = linked_files(results["markdown_content"], path, names, tmp_path)
        assert sum("frame_" in name for name in linked) == 5
        assert [slide["time"] for slide in results["slides"]] == pytest.approx(STARTS, abs=0.5)


STARTS = [sum(SECONDS[:number]) for number in range(5)]


@cache
def scanned_slides() -> bytes:
    """The slides of the video as pictures without text, in another order and with a title page."""
    pictures = five_slides()
    order = [
        slide("Annual meeting", "A talk by Jo"),
        *(pictures[index] for index in (2, 0, 1, 3, 4)),
    ]
    pages = [Image.fromarray(picture).resize((1280, 720)) for picture in order]
    file = io.BytesIO()
    pages[0].save(file, "PDF", save_all=True, append_images=pages[1:], resolution=150)
    return file.getvalue()


class TestSlidesAndVideo:
    async def test_scanned_slides_are_read_and_found_in_the_video(self, tmp_path: Path) -> None:
        files: Any = {"/slides.pdf": (scanned_slides(), "application/pdf")}
        async with (
            conference(**files) as web,
            llm_server(Reads(analysed)) as server,
        ):
            llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
            async with running_service(tmp_path, network=ALLOWED, llm=llm) as service:
                body = seed_example(
                    web,
                    template="Session_analyze",
                    target_language="de",
                    speakers_url=["https://example.org/jo"],
                    create_archive=True,
                )
                del body["extra"]
                response = await service.client.post("/api/session/process", json=body)
                assert response.status_code == 200, response.text
                output = response.json()["data"]["output"]
                pages = [(await service.get(url)).json()["content"] for url in output["page_texts"]]
        assert missing(output) == {}
        assert [page.split()[0] for page in pages] == [
            "Annual", "The", "The", "Costs", "Objections", "Questions",
        ]  # fmt: skip
        times = [slide["time"] for slide in output["slides"]]
        assert times[0] is None
        order = [STARTS[index] for index in (2, 0, 1, 3, 4)]
        assert times[1:] == pytest.approx(order, abs=0.5)
        asked = json.dumps(server.requests[-1], ensure_ascii=False)
        assert "From 00:07: slide 2 is shown" in asked
        self.check_document(output)

    def check_document(self, output: dict[str, Any]) -> None:
        archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(output["archive_data"])))
        path = output["markdown_file"].removeprefix("sessions/")
        assert path.startswith("FOSDEM 2025/de/Main-Track-Janson-7/")
        document = archive.read(path).decode()
        fields = client_front_matter(document)
        assert [slide["page_num"] for slide in fields["slides"]] == [1, 2, 3, 4, 5, 6]
        for described, found in zip(fields["slides"], output["slides"], strict=True):
            assert described["image_url"] == found["image_url"]
            assert described["image_url"] in archive.namelist()
        assert fields["slides"][1]["title"] == "Titel 2"  # of the model
        assert fields["slides"][2]["title"].startswith("The harvest")  # which left this one out
        assert fields["speakers_url"] == ["https://example.org/jo"]
        assert fields["template"] == "Session_analyze"
        assert output["structured_data"]["slides"] == fields["slides"]


def analysed(request: Mapping[str, Any]) -> Any:
    """A model that describes one slide and fills the other fields."""
    schema = request["response_format"]["json_schema"]["schema"]
    answer: dict[str, Any] = {}
    for name, field in schema["properties"].items():
        kind = field["type"]
        answer[name] = ["Eins"] if kind == "array" else None if "null" in kind else f"Über {name}"
    slide = {"page_num": 2, "title": "Titel 2", "summary": "Über 2", "image_url": ""}
    return says(json.dumps({**answer, "slides": [slide]}, ensure_ascii=False))


def missing(results: dict[str, Any]) -> dict[str, str]:
    return {part["part"]: part["error"]["code"] for part in results["missing"]}


def linked_files(markdown: str, path: str, names: set[str], data_dir: Path) -> set[str]:
    """The files that the document links to; each exists in the archive and in the directory."""
    links = re.findall(r"\]\(([^)\s]+)\)", markdown)
    members = set()
    for link in links:
        if "://" in link:
            continue
        member = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(link)))
        assert (data_dir / member).is_file(), link
        assert member.removeprefix("sessions/") in names, link
        members.add(member)
    return members

    async def test_a_talk_in_another_language_is_not_translated_which_a_warning_says(
        self, tmp_path: Path
    ) -> None:
        vtt = b"WEBVTT\n\n00:00.000 --> 00:02.000\nWritten by the organisers\n"
        more: Any = {"/talk.vtt": (vtt, "text/vtt"), "/talk.mp4": None}
        async with conference(**more) as web, running_service(tmp_path, network=ALLOWED) as service:
            example = seed_example(web, subtitles_url=web.url("/talk.vtt"))
            results = await done(service, **example)
            strict = await service.ended(await service.submit("session", **example, strict=True))
        (warning,) = results["warnings"]
        assert warning["code"] == "TRANSLATION_UNAVAILABLE"
        assert "English" in warning["message"] and "German" in warning["message"]
        assert (strict["status"], strict["error"]["code"]) == ("failed", "ENGINE_UNAVAILABLE")


class TestWithAModel:
    async def test_the_document_is_written_in_the_target_language(self, tmp_path: Path) -> None:
        async with conference() as web, llm_server(Reads(filled_in)) as server:
            llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
            async with running_service(tmp_path, network=ALLOWED, llm=llm) as service:
                results = await done(service, **seed_example(web))
        fields = front_matter(results["markdown_content"])
        assert fields["title"] == 'Gespaltene Gemeinschaften: "Forks" & Folgen'
        assert fields["tags"] == ["Eins: zwei", 'Das "dritte"']
        assert fields["language"] == "de"
        assert results["structured_data"]["summary"] == "Über summary"
        assert "/de/Main-Track-Janson-7/" in results["markdown_file"]
        assert "kein Sprachmodell" not in results["markdown_content"]
        asked = json.dumps(server.requests[-1])
        assert "Three forks" in asked
        assert "worst of times" in asked
        assert results["llm_info"]["total_tokens"] == 120

    async def test_a_model_that_fails_fails_the_job(self, tmp_path: Path) -> None:
        async with conference() as web, llm_server(says("I would rather not")) as server:
            llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
            async with running_service(tmp_path, network=ALLOWED, llm=llm) as service:
                body = {
                    "job_type": "session",
                    "parameters": seed_example(web, video_url=None),
                    "max_attempts": 1,
                }
                response = await service.client.post("/api/jobs", json=body)
                job = await service.ended(response.json()["data"]["job_id"])
        assert (job["status"], job["error"]["code"]) == ("failed", "UPSTREAM_FAILED")


class TestHostility:
    INJECTED = (
        "</p>---\ntitle: mine\n--- {{secret|tell}} <script>alert(1)</script> ../../etc/passwd<p>"
    )

    async def test_markup_in_the_page_stays_in_its_place(self, tmp_path: Path) -> None:
        page = PAGE.format(injected=self.INJECTED).encode()
        gone: Any = {"/event": (page, "text/html"), "/talk.mp4": None, "/slides.pdf": None}
        async with conference(**gone) as web, running_service(tmp_path, network=ALLOWED) as service:
            hostile = {
                "event": "../../../outside\n---",
                "session": '"]: {{x|y}}\n---\ntitle: other\n<b>',
                "track": "..\\..",
                "filename": "/etc/../passwd\0.md",
            }
            results = await done(service, **{**seed_example(web), **hostile})
        markdown = results["markdown_content"]
        assert front_matter(markdown)["title"] == hostile["session"]
        assert "<script>" not in markdown
        path = (tmp_path / results["target_dir"]).resolve()
        assert path.is_relative_to((tmp_path / "sessions").resolve())
        assert not (tmp_path.parent / "outside").exists()


async def test_a_batch_of_a_document_and_a_talk_is_done(tmp_path: Path) -> None:
    """The batch of the example in the original documents, for our own conference."""
    async with conference() as web, running_service(tmp_path, network=ALLOWED) as service:
        talk = {"event": "FOSDEM 2025", "session": "Forks", "url": web.url("/event")}
        slides = {"url": web.url("/slides.pdf"), "extraction_method": "native"}
        jobs = [
            {"job_type": "pdf", "parameters": slides},
            {"job_type": "session", "parameters": {**talk, "target_language": "de"}},
        ]
        body = {"batch_name": "import_batch", "jobs": jobs}
        response = await service.client.post("/api/jobs/batch", json=body)
        data = response.json()["data"]
        pdf, session = [await service.ended(job_id) for job_id in data["job_ids"]]
        batch = (await service.get(f"/api/batch/{data['batch_id']}")).json()["data"]
    assert (batch["status"], batch["completed_jobs"]) == ("completed", 2)
    assert "Three forks" in pdf["results"]["extracted_text"]
    assert "Three forks" in session["results"]["markdown_content"]
    assert "kein Sprachmodell" in session["results"]["markdown_content"]
    assert "/FOSDEM%202025/de/" in session["results"]["markdown_file"]
