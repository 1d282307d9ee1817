"""The log of a job says what it did and why it is slow, for every built-in job type."""

import re
from collections.abc import AsyncIterator
from functools import partial

import pytest
import pytest_asyncio

from ..audio_files import speech
from ..llm_server import KEY, Reads, llm_server
from ..minimal_files import pdf
from ..rendered_pages import ENGLISH, page
from ..sample_documents import a_docx, picture, scan_of
from ..service_fixture import ServiceClient, running_service
from .test_session_jobs import conference, filled_in, seed_example

TIME = r"[\d.]+ m?s"
SOURCE = r"Source: {}, [\d.]+ \w+, {}"
COMPLETED = rf"Completed in {TIME}; it started {TIME} after its submission"
#: More than a job with many pages may have.
MAX_LINES = 25

pytestmark = pytest.mark.asyncio(loop_scope="module")


@partial(pytest_asyncio.fixture, scope="module", loop_scope="module")
async def service(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServiceClient]:
    network = {"allow_hosts": ["127.0.0.1"]}
    directory = tmp_path_factory.mktemp("logs")
    async with llm_server(Reads(filled_in)) as server:
        llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
        async with running_service(directory, network=network, llm=llm) as service:
            yield service


async def logged(service: ServiceClient, job_id: str) -> list[str]:
    """The log of the job, which completed and reveals neither keys nor paths."""
    job = await service.ended(job_id)
    assert job["status"] == "completed", job["error"]
    messages = [entry["message"] for entry in job["logs"]]
    assert str(service.data_dir) not in "".join(messages)
    assert KEY not in "".join(messages)
    assert len(messages) < MAX_LINES
    return messages


def assert_logged(messages: list[str], *patterns: str) -> None:
    """Each pattern matches a message, in this order."""
    remaining = iter(messages)
    for pattern in patterns:
        found = any(re.fullmatch(pattern, message) for message in remaining)
        assert found, f"{pattern!r} is missing or out of order in {messages}"


async def test_a_scanned_pdf_names_engines_pages_and_times(service: ServiceClient) -> None:
    submit = partial(service.submit_file, "/api/pdf/process", scan_of(page(ENGLISH)), "scan.pdf")
    assert_logged(
        await logged(service, await submit(extraction_method="auto")),
        SOURCE.format("scan.pdf", "uploaded"),
        r"Method auto with pypdfium2 [\d.]+, tesseract \S+",
        "The pdf file has 1 page; reading pages 1 to 1",
        "Cache: reusing 0 of 1 page",
        rf"Read 1 page by method ocr in {TIME}",
        "Output: text of 1 page, 0 pictures",
        rf"Time per step: .*processing_pages {TIME}.*",
        rf"Sandbox: {TIME} of CPU time, at most [\d.]+ MB of memory",
        COMPLETED,
    )
    again = await logged(service, await submit(extraction_method="auto"))
    assert_logged(again, "Cache: reusing the assembled document of 1 page", COMPLETED)


async def test_many_pages_are_summarised(service: ServiceClient) -> None:
    content = pdf(*(f"Page {number}" for number in range(500)))
    messages = await logged(
        service, await service.submit_file("/api/pdf/process", content, "l.pdf")
    )
    assert_logged(
        messages,
        "The pdf file has 500 pages; reading pages 1 to 500",
        rf"Read 500 pages by method auto in {TIME}, {TIME} per page",
    )


async def test_office_files_and_images(service: ServiceClient) -> None:
    job_id = await service.submit_file("/api/office/process", a_docx(), "a.docx")
    assert_logged(
        await logged(service, job_id),
        SOURCE.format("a.docx", "uploaded"),
        r"The file type is docx; read with lxml [\d.]+; no earlier work is reused",
        "The document has 1 page",
        COMPLETED,
    )
    job_id = await service.submit_file("/api/imageocr/process", picture("PNG"), "a.png")
    patterns = (r"Method ocr with pillow [\d.]+, tesseract \S+", COMPLETED)
    assert_logged(await logged(service, job_id), *patterns)


async def test_a_recording_names_its_engine_and_speed(service: ServiceClient) -> None:
    content = speech().read_bytes()
    submit = partial(service.submit_file, "/api/audio/process", content, "a.wav")
    assert_logged(
        await logged(service, await submit()),
        SOURCE.format("a.wav", "uploaded"),
        "Recording: wav, 00:0[67], pcm_s16le, 0 subtitle tracks",
        rf"Decoded 00:0[67] of sound in {TIME}",
        rf"Found 00:0[67] of speech in 00:0[67] of sound in {TIME}",
        r"Speech engine: whisper \S+; cache: reusing 0 of 1 chunk",
        rf"Transcribed 00:0[67] of speech in {TIME} \([\d.]+ times real time\)",
        r"Language: en; \d+ characters",
        "Output: transcript, 0 slides",
        COMPLETED,
    )
    patterns = (r"Speech engine: whisper \S+; cache: reusing 1 of 1 chunk", COMPLETED)
    assert_logged(await logged(service, await submit()), *patterns)


async def test_a_text_names_its_model_and_what_is_cached(service: ServiceClient) -> None:
    content = "# {{title|Its title}}\n\n{{text}}"
    submit = partial(
        service.submit, "transformer", text="Apples are red fruits.", template_content=content
    )
    assert_logged(
        await logged(service, await submit()),
        "Text: 22 characters",
        "Template inline: 1 field for the model to fill",
        "Chat model scripted; cache: reusing 0 of 1 answer",
        r"Output: \d+ characters as markdown",
        rf"Model scripted \(chat\): 1 request, 120 tokens, {TIME}",
        COMPLETED,
    )
    patterns = ("Chat model scripted; cache: reusing 1 of 1 answer", COMPLETED)
    assert_logged(await logged(service, await submit()), *patterns)


async def test_a_talk_names_its_parts(service: ServiceClient) -> None:
    async with conference() as web:
        parameters = seed_example(web, target_language="en")
        messages = await logged(service, await service.submit("session", **parameters))
    assert_logged(
        messages,
        SOURCE.format("event", rf"downloaded from 127.0.0.1 in {TIME}"),
        "slides: The pdf file has 3 pages; reading pages 1 to 3",
        r"video: Recording: mp4, 00:\d\d, h264, aac, 0 subtitle tracks",
        r"Talk: page of \d+ characters, a transcript in en, 3 slides; 1 part missing",
        r"Output: [\d,]+ characters, \d+ files beside it",
        rf"Time per step: .*video/transcribing {TIME}.*",
        COMPLETED,
    )


async def test_a_failure_says_why_and_when(service: ServiceClient) -> None:
    job_id = await service.submit_file("/api/pdf/process", b"%PDF-1.4 broken", "b.pdf")
    last = (await service.ended(job_id))["logs"][-1]
    assert last["level"] == "error"
    assert re.fullmatch(rf"Failed after {TIME}: .* \(FILE_CORRUPT\)", last["message"])


async def test_the_address_of_a_download_is_not_logged_beyond_its_host(
    service: ServiceClient,
) -> None:
    async with conference() as web:
        url = web.url("/slides.pdf").replace("://", "://ann:secret@")
        job_id = await service.submit("pdf", url=f"{url}?token=hidden")
        job = await service.ended(job_id)
    text = "".join(entry["message"] for entry in job["logs"])
    assert "secret" not in text and "hidden" not in text and "ann" not in text
