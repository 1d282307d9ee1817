"""The existing client application works against the running program, on both stores."""

import base64
import io
import json
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from PIL import Image

from ..audio_files import WORDS, german_speech, made, sound, video
from ..client_application.callbacks import TEMPLATE, Application, running_application
from ..client_application.calls import Calls, File, ServiceError
from ..client_application.model_endpoint import HEARD, ModelEndpoint, model_endpoint, vector
from ..client_application.readers import check_references, front_matter, pages, references
from ..http_servers import files_in
from ..mongod import Mongod
from ..sample_documents import (
    a_docx,
    a_pptx,
    an_xlsx,
    as_file,
    picture,
    rich_pdf,
    scan_of,
    words,
)
from ..speech import word_error_rate
from .program import Program, Running

KEY = "sk-application-0123456789"
PDF: File = ("a.pdf", rich_pdf(), "application/pdf")
SCAN: File = ("scan.pdf", scan_of(words(), words(text="Second page")), "application/octet-stream")
PNG: File = ("Bild.png", picture("PNG"), "image/png")
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
DESCRIPTION = """\
---
detailViewType: picture
title: {{title|Ein kurzer Titel}}
tags: {{tags|Schlagworte, Array von Strings}}
---
# {{title}}

{{description|Was auf dem Bild zu sehen ist}}
--- systemprompt
Antworte auf {target_language}.
"""


@pytest.fixture(scope="module")
def models() -> Iterator[ModelEndpoint]:
    with model_endpoint() as endpoint:
        yield endpoint


@pytest.fixture(scope="module", params=["sqlite", "mongodb"])
def service(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    models: ModelEndpoint,
) -> Iterator[Running]:
    settings = {
        "SECRETARY_API_KEYS": KEY,
        "SECRETARY_NETWORK__ALLOW_PRIVATE": "true",
        "SECRETARY_LLM__BASE_URL": models.url,
        "SECRETARY_LLM__MODEL": "scripted",
        "SECRETARY_LLM__TRANSCRIPTION_MODEL": "scripted-speech",
        "SECRETARY_LLM__EMBEDDING_MODEL": "scripted-embedding",
        "SECRETARY_LLM__IMAGE_MODEL": "scripted-image",
    }
    directory = tmp_path_factory.mktemp("service")
    if request.param == "sqlite":
        with Program(directory, **settings).serving() as running:
            yield running
        return
    server: Mongod = request.getfixturevalue("mongod")
    name = server.borrow_database()
    with Program(directory, MONGODB_URI=server.url(name), **settings).serving() as running:
        yield running
    server.return_database(name)


@pytest.fixture(scope="module")
def calls(service: Running) -> Iterator[Calls]:
    calls = Calls(f"{service.url}/api/", KEY)
    yield calls
    calls.close()


@pytest.fixture
def application(calls: Calls) -> Iterator[Application]:
    with running_application(calls) as application:
        yield application


def form(**fields: str) -> dict[str, str]:
    return fields


PDF_FORM = form(
    includeOCRImages="true", includePreviewPages="true", includeHighResPages="true", useCache="true"
)
OFFICE_FORM = form(
    useCache="true", includeImages="true", includePreviews="true", force_refresh="false"
)
RECORDING_FORM = form(target_language="de", source_language="auto", useCache="true")


class TestDocumentsWithCallback:
    def test_a_pdf_arrives_with_its_text_pages_and_images(self, application: Application) -> None:
        job = application.new_job("document")
        response = application.submit(job, "pdf/process-mistral-ocr", PDF, **PDF_FORM)
        assert response.status_code == 202
        job.wait()
        assert pages(job.text) == [1, 2]
        assert "Apples and pears" in job.text
        names = {"preview_001.jpg", "preview_002.jpg", "page_001.jpeg", "page_002.jpeg"}
        assert names <= set(job.files)
        assert "![img-0.jpeg](img-0.jpeg)" in job.text or "![img-0.png](img-0.png)" in job.text
        check_references(job.text, job.files)
        assert max(Image.open(io.BytesIO(job.files["preview_001.jpg"])).size) <= 360
        assert max(Image.open(io.BytesIO(job.files["page_001.jpeg"])).size) > 2000
        assert job.structured_data is not None
        assert isinstance(job.structured_data["tags"], list)
        assert job.chunks[0]["embedding"] == vector(job.chunks[0]["text"], 2048)

    def test_the_raw_document_describes_the_pages_and_their_images(
        self, application: Application
    ) -> None:
        job = application.new_job("document")
        application.submit(job, "pdf/process-mistral-ocr", PDF, **PDF_FORM)
        raw = job.wait().raw
        assert raw is not None
        assert [page["index"] for page in raw["pages"]] == [0, 1]
        assert raw["usage_info"]["pages_processed"] == 2
        assert raw["model"]
        first = raw["pages"][0]
        assert set(first["dimensions"]) == {"dpi", "height", "width"}
        (image,) = first["images"]
        assert image["id"] in job.files
        assert f"![{image['id']}]({image['id']})" in first["markdown"]
        assert 0 <= image["top_left_x"] < image["bottom_right_x"] <= first["dimensions"]["width"]
        assert 0 <= image["top_left_y"] < image["bottom_right_y"] <= first["dimensions"]["height"]

    def test_page_files_can_be_written_from_the_text_contents(
        self, application: Application
    ) -> None:
        job = application.new_job("document")
        application.submit(job, "pdf/process-mistral-ocr", PDF, **PDF_FORM)
        contents = job.wait().events[-1]["data"]["metadata"]["text_contents"]
        assert [each["page"] for each in contents] == [1, 2]
        assert "Second page" in contents[1]["content"]

    def test_a_scan_is_read(self, application: Application) -> None:
        job = application.new_job("document")
        application.submit(job, "pdf/process-mistral-ocr", SCAN, **PDF_FORM)
        assert "Forty two apples" in job.wait().text

    def test_without_image_flags_there_are_no_archives(self, application: Application) -> None:
        job = application.new_job("document")
        none = {name: "false" for name in PDF_FORM}
        application.submit(job, "pdf/process-mistral-ocr", PDF, **none)
        assert job.wait().files == {}
        data = job.events[-1]["data"]
        assert not data.get("pages_archive_url") and not data.get("mistral_ocr_images_url")

    def test_a_page_range_keeps_the_numbers_of_the_document(self, application: Application) -> None:
        job = application.new_job("document")
        part = {**PDF_FORM, "page_start": "2", "page_end": "2"}
        application.submit(job, "pdf/process-mistral-ocr", PDF, **part)
        assert pages(job.wait().text) == [2]
        assert {"page_002.jpeg", "preview_002.jpg"} <= set(job.files)
        assert "page_001.jpeg" not in job.files

    @pytest.mark.parametrize(
        "method",
        [
            *("native", "ocr", "both", "preview_and_native", "tesseract_ocr"),
            *("llm", "llm_and_ocr", "llm_and_native"),
        ],
    )
    def test_a_pdf_is_read_by_every_method(self, application: Application, method: str) -> None:
        job = application.new_job("document")
        fields = form(target_language="de", extraction_method=method)
        fields |= form(useCache="true", includeImages="false")
        application.submit(job, "pdf/process", SCAN if "ocr" in method else PDF, **fields)
        assert pages(job.wait().text) == [1, 2]
        assert bool(job.files) == ("preview" in method)

    def test_page_images_of_a_pdf_are_called_pages(self, application: Application) -> None:
        job = application.new_job("document")
        fields = form(target_language="de", extraction_method="native")
        fields |= form(useCache="true", includeImages="true")
        application.submit(job, "pdf/process", PDF, **fields)
        assert {"page_001.jpg", "preview_001.jpg"} <= set(job.wait().files)

    @pytest.mark.parametrize(
        "name, content, expected",
        [("a.docx", a_docx(), "# Fruit"), ("a.xlsx", an_xlsx(), "|"), ("a.pptx", a_pptx(), "#")],
    )
    def test_an_office_file_arrives_as_markdown(
        self, application: Application, name: str, content: bytes, expected: str
    ) -> None:
        job = application.new_job("document")
        file = (name, content, "application/octet-stream")
        response = application.submit(job, "office/process", file, jobId="ours-1", **OFFICE_FORM)
        assert response.json()["job"]["id"] != "ours-1"
        assert expected in job.wait().text
        assert not job.text.startswith("---")
        check_references(job.text, job.files)

    def test_pictures_of_an_office_file_arrive_and_are_not_pages(
        self, application: Application
    ) -> None:
        job = application.new_job("document")
        application.submit(job, "office/process", ("a.docx", a_docx(), DOCX), **OFFICE_FORM)
        (name,) = [each for each in references(job.wait().text)]
        assert job.files[name].startswith(b"\x89PNG")
        assert not name.startswith("page_")
        assert not job.events[-1]["data"].get("pages_archive_url")

    def test_an_office_file_without_pictures_has_no_archive(self, application: Application) -> None:
        job = application.new_job("document")
        application.submit(job, "office/process", ("a.xlsx", an_xlsx(), "*/*"), **OFFICE_FORM)
        job.wait()
        data = job.events[-1]["data"]
        assert not data.get("images_archive_url")

    def test_a_broken_file_fails_the_job_with_a_reason(self, application: Application) -> None:
        job = application.new_job("document")
        broken = ("a.pdf", b"%PDF-1.7\n" + b"\0" * 2000, "application/pdf")
        application.submit(job, "pdf/process-mistral-ocr", broken, **PDF_FORM)
        with pytest.raises(AssertionError, match="FILE_CORRUPT"):
            job.wait()
        assert job.error is not None and job.error["message"]


class TestRecordingsWithCallback:
    def test_speech_arrives_as_text(self, application: Application) -> None:
        job = application.new_job("recording")
        file = ("a.mp3", sound("a.mp3").read_bytes(), "audio/*")
        response = application.submit(
            job, "audio/process", file, **{**RECORDING_FORM, "target_language": "en"}
        )
        assert response.status_code == 202
        assert word_error_rate(WORDS, job.wait().text) <= 0.1

    def test_the_speech_of_a_video_arrives_as_text(self, application: Application) -> None:
        job = application.new_job("recording")
        file = ("v.mp4", video("v.mp4").read_bytes(), "video/*")
        fields = {**RECORDING_FORM, "target_language": "en"}
        application.submit(job, "video/process", file, **fields)
        assert word_error_rate(WORDS, job.wait().text) <= 0.1

    def test_speech_in_another_language_arrives_translated(self, application: Application) -> None:
        job = application.new_job("recording")
        file = ("a.mp3", sound("a.mp3").read_bytes(), "audio/*")
        application.submit(job, "audio/process", file, **RECORDING_FORM)
        assert "Über" in job.wait().text or "Was das Modell liest" in job.text


class TestEvents:
    def test_progress_carries_only_a_number_and_nothing_follows_the_final_event(
        self, application: Application, models: ModelEndpoint
    ) -> None:
        application.work_seconds = 1.5
        models.vision_seconds = 4.0
        job = application.new_job("document")
        fields = form(extraction_method="llm", useCache="false", includeImages="false")
        application.submit(job, "pdf/process", PDF, **fields)
        job.wait()
        models.vision_seconds = 0.0
        *progress, final = job.events
        assert progress
        for event in progress:
            assert set(event["data"] or {}) <= {"progress"}
            assert event.get("error") is None
        assert final["phase"] == "completed"
        assert [kind for _, kind in job.finals] == ["final"]

    def test_events_name_the_same_process(self, application: Application) -> None:
        job = application.new_job("document")
        response = application.submit(job, "pdf/process-mistral-ocr", PDF, **PDF_FORM)
        job.wait()
        assert {event["process"]["id"] for event in job.events} == {response.json()["job"]["id"]}

    def test_a_job_submitted_again_is_accepted_and_ends_once(
        self, application: Application
    ) -> None:
        """As after the application's limit of 60 s for a submission."""
        job = application.new_job("recording")
        file = ("a.flac", sound("a.flac").read_bytes(), "audio/*")
        fields = {**RECORDING_FORM, "target_language": "en", "useCache": "false"}
        for _ in range(3):
            assert application.submit(job, "audio/process", file, **fields).status_code == 202
        job.wait()
        assert word_error_rate(WORDS, job.text) <= 0.1
        assert [kind for status, kind in job.answers if kind == "final"] == ["final"]

    def test_a_slow_answer_to_a_final_event_is_waited_for(self, application: Application) -> None:
        application.work_seconds = 4
        job = application.new_job("document")
        application.submit(job, "pdf/process-mistral-ocr", PDF, **PDF_FORM)
        job.wait()
        assert job.finals == [(200, "final")]

    def test_more_slow_answers_than_slots_do_not_block_the_service(
        self, application: Application
    ) -> None:
        """The application calls the service while it answers; every slot holds one of its jobs."""
        application.work_seconds = 2
        jobs = [application.new_job("document") for _ in range(12)]
        for number, job in enumerate(jobs):
            file = (f"{number}.docx", a_docx(), DOCX)
            fields = {**OFFICE_FORM, "useCache": "false"}
            application.submit(job, "office/process", file, **fields)
        for job in jobs:
            assert job.wait().finals == [(200, "final")]


class TestDesktopMode:
    def test_a_pdf_arrives_by_the_stream(self, calls: Calls) -> None:
        response = calls.submit_pdf(PDF)
        assert response.status_code == 202
        result = calls.desktop_result(response)
        assert pages(result["extracted_text"]) == [1, 2]
        assert result["pages_archive_url"] and result["mistral_ocr_images_url"]

    def test_a_pdf_arrives_by_polling(self, calls: Calls) -> None:
        job_id = calls.submit_pdf(PDF).json()["job"]["id"]
        calls.streamed_result(job_id)
        result = calls.polled_result(job_id)
        assert result is not None
        assert pages(result["extracted_text"]) == [1, 2]
        assert result["pages_archive_url"] and result["mistral_ocr_images_url"]

    def test_an_office_file_arrives_by_the_stream(self, calls: Calls) -> None:
        result = calls.desktop_result(calls.submit_office(("a.docx", a_docx(), DOCX)))
        assert "# Fruit" in result["extracted_text"]

    def test_a_recording_is_answered_with_its_result(self, calls: Calls) -> None:
        file = ("a.mp3", sound("a.mp3").read_bytes(), "audio/*")
        response = calls.submit_recording("audio/process", file, target_language="en")
        assert response.status_code == 200
        data = calls.desktop_result(response)
        assert word_error_rate(WORDS, data["transcription"]["text"]) <= 0.1
        assert "chapters" not in data["metadata"]

    def test_an_unreadable_file_is_reported(self, calls: Calls) -> None:
        broken = ("a.pdf", b"%PDF-1.7\n" + b"\0" * 2000, "application/pdf")
        with pytest.raises(ServiceError) as raised:
            calls.desktop_result(calls.submit_pdf(broken))
        assert raised.value.code == "FILE_CORRUPT"

    def test_a_cancelled_job_ends_the_stream_with_an_error(
        self, calls: Calls, service: Running
    ) -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        body = {"job_type": "selftest", "parameters": {"seconds": 60}}
        job_id = service.post("/api/jobs", body, headers=headers).json()["data"]["job_id"]
        service.post(f"/api/jobs/{job_id}/cancel", headers=headers)
        with pytest.raises(ServiceError, match="CANCELLED"):
            calls.streamed_result(job_id)


class TestRecordingsDirectly:
    def test_dictation_in_the_language_of_the_speaker(self, calls: Calls) -> None:
        path = german_speech().with_suffix(".webm")
        if not path.exists():
            made(path, "-i", german_speech(), "-c:a", "libopus")
        text = calls.dictation(("dictation.webm", path.read_bytes(), "audio/*"))
        assert text == HEARD

    def test_the_dialogs_get_the_details_of_a_sound(self, calls: Calls) -> None:
        file = ("a.mp3", sound("a.mp3").read_bytes(), "audio/mpeg")
        envelope = calls.upload_recording("audio/process", file, target_language="en")
        metadata = envelope["data"]["metadata"]
        assert metadata["duration"] == pytest.approx(7, abs=3)
        assert metadata["sample_rate"] and metadata["channels"] == 1 and metadata["format"]
        assert envelope["data"]["transcription"]["source_language"] == "en"

    def test_the_dialogs_get_the_details_of_a_video(self, calls: Calls) -> None:
        file = ("v.mp4", video("v.mp4").read_bytes(), "video/*")
        fields = form(target_language="en", force_refresh="false")
        envelope = calls.upload_recording("video/process", file, **fields)
        metadata = envelope["data"]["metadata"]
        assert metadata["duration"] == pytest.approx(7, abs=3)
        assert metadata["title"] and metadata["file_size"]

    def test_a_named_template_is_applied_to_a_recording(self, calls: Calls) -> None:
        file = ("a.mp3", sound("a.mp3").read_bytes(), "audio/mpeg")
        fields = form(target_language="en", template="Besprechung")
        envelope = calls.upload_recording("audio/process", file, **fields)
        assert envelope["process"]["llm_info"]["total_tokens"] > 0


class TestPictures:
    @pytest.mark.parametrize(
        "method", ["ocr", "native", "both", "preview_and_native", "llm", "llm_and_ocr"]
    )
    def test_the_text_of_a_picture_is_read_by_every_method(self, calls: Calls, method: str) -> None:
        data = calls.read_picture(PNG, method, context=json.dumps({"fileName": "Bild.png"}))
        expected = "Was das Modell liest" if method == "llm" else "Forty two apples"
        assert expected in data["extracted_text"]
        assert "--- Seite" not in data["extracted_text"]
        metadata = data["metadata"]
        assert metadata["file_name"] == "Bild.png"
        assert metadata["format"] and metadata["dimensions"] and metadata["color_mode"]

    def test_a_picture_without_text_comes_with_a_warning(self, calls: Calls) -> None:
        blank = as_file(Image.new("RGB", (300, 300), "white"), "PNG")
        data = calls.read_picture(("leer.png", blank, "image/png"))
        assert (data["extracted_text"], len(data["warnings"])) == ("", 1)

    def test_one_picture_is_described_by_a_template(
        self, calls: Calls, models: ModelEndpoint
    ) -> None:
        text = calls.describe_picture(DESCRIPTION, PNG, model="google/gemini-2.5-flash")
        fields = front_matter(text)
        assert fields["detailViewType"] == "picture"
        assert isinstance(fields["tags"], list)
        assert fields["title"] and '"description"' in text
        assert models.last("/v1/chat/completions")["model"] == "google/gemini-2.5-flash"

    def test_several_pictures_are_described_together(
        self, calls: Calls, models: ModelEndpoint
    ) -> None:
        files = [(f"{n}.png", as_file(words(text=f"Bild {n}"), "PNG"), "image/png") for n in "123"]
        front_matter(calls.describe_picture(DESCRIPTION, *files))
        request = models.last("/v1/chat/completions")
        parts = [
            part
            for message in request["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
        ]
        assert sum(part["type"] == "image_url" for part in parts) == 3


class TestTemplates:
    def test_all_variables_arrive_flat_and_typed(self, calls: Calls) -> None:
        template = TEMPLATE.replace(
            "tags:",
            "authors: {{authors|Namen der Autoren (Array von Strings)}}\n"
            "year: {{year|Erscheinungsjahr, YYYY oder null}}\n"
            "docType: {{docType|Eine aus: report | study | other}}\n"
            "keywords: {{keywords|kommagetrennt}}\n"
            "chapters: {{chapters|Array von Objekten mit title, level}}\n"
            "source: {{fileName}}\ntags:",
        )
        context = {"fileName": "a.pdf", "knownNames": ["Ada"], "availableMedia": []}
        fields = calls.apply_template("Ein Text über Äpfel.", template, context=context)
        assert isinstance(fields["authors"], list) and isinstance(fields["chapters"], list)
        assert fields["year"] is None or isinstance(fields["year"], int | float)
        assert isinstance(fields["keywords"], str) and isinstance(fields["docType"], str)
        assert isinstance(fields["bodyInText"], str)

    def test_the_chosen_model_and_field_descriptions_are_used(
        self, calls: Calls, models: ModelEndpoint
    ) -> None:
        more = {"mood": "Die Stimmung des Textes"}
        fields = calls.apply_template(
            "Ein Text.", TEMPLATE, model="gpt-4.1-mini", additional_field_descriptions=more
        )
        assert fields["mood"]
        request = models.last("/v1/chat/completions")
        assert request["model"] == "gpt-4.1-mini"
        assert "Die Stimmung des Textes" in json.dumps(request, ensure_ascii=False)

    def test_a_translation_template_is_answered_flat(self, calls: Calls) -> None:
        template = (
            "---\nstructured_data:\n"
            "  title: {{title|Translated title}}\n"
            "  tags: {{tags|Array of strings}}\n"
            "  subtitle: {{subtitle|(optional) translated subtitle}}\n---\n"
            "--- systemprompt\nTranslate into {target_language}.\n"
        )
        text = json.dumps({"title": "Äpfel", "tags": ["rot"]}, indent=2, ensure_ascii=False)
        fields = calls.apply_template(
            text, template, source_language="de", target_language="en", use_cache=True
        )
        assert isinstance(fields["title"], str) and isinstance(fields["tags"], list)
        assert "structured_data" not in fields
        assert fields.get("subtitle", "x")

    @pytest.mark.parametrize(
        "name", ["Besprechung", "Gedanken", "Interview", "Zusammenfassung", "besprechung"]
    )
    def test_the_templates_of_the_dialog_exist(self, calls: Calls, name: str) -> None:
        data = calls.transform_text("Wir trafen uns.\nEs ging um Äpfel.", template=name)
        assert data["structured_data"]["title"] and data["structured_data"]["summary"]
        front_matter(data["text"])

    def test_a_template_sent_as_a_form_fills_text_with_front_matter(self, calls: Calls) -> None:
        data = calls.transform_text("Wir trafen uns.", template_content=TEMPLATE)
        fields = front_matter(data["text"].replace("\r\n", "\n"))
        assert fields["tags"] == data["structured_data"]["tags"]
        assert fields["title"] == data["structured_data"]["title"]

    def test_a_missing_template_is_named(self, calls: Calls) -> None:
        with pytest.raises(ServiceError, match="not found") as raised:
            calls.transform_text("Ein Text.", template="Gibt-es-nicht")
        assert raised.value.status < 500

    def test_the_data_of_a_talk_is_read_from_its_page(self, calls: Calls, tmp_path: Path) -> None:
        with conference(tmp_path) as url:
            data = calls.read_web_page(f"{url}/talk.html")
        fields = data["structured_data"]
        for name in ("event", "session", "track", "video_url", "filename", "day", "language"):
            assert isinstance(fields[name], str)
        assert isinstance(fields["speakers"], str | list)
        assert "licensed anew" in data["text"]

    def test_the_talks_of_a_programme_are_listed(self, calls: Calls, tmp_path: Path) -> None:
        fields = form(template="ExtractSessionListFromWebsite", container_selector="li.talk")
        with conference(tmp_path) as url:
            data = calls.read_web_page(f"{url}/programme.html", **fields)
        found = data["structured_data"]
        items = found if isinstance(found, list) else found.get("items") or found.get("sessions")
        assert items and all(item["url"] and item["title"] for item in items)

    def test_a_text_is_translated(self, calls: Calls) -> None:
        assert calls.translate("Ein Text über Äpfel.", "de", "en")


QUESTION = {"role": "user", "content": "Sind Äpfel rot?"}
SYSTEM = {"role": "system", "content": "Antworte kurz."}


class TestChat:
    def test_it_answers_with_text(self, calls: Calls, models: ModelEndpoint) -> None:
        data = calls.chat(SYSTEM, QUESTION, max_tokens=500, use_cache=False)
        assert data["text"] == "Was das Modell liest."
        request = models.last("/v1/chat/completions")
        assert request["model"] == "google/gemini-2.5-flash"
        assert request["temperature"] == 0.3
        assert request["messages"][-1] == QUESTION

    def test_it_answers_with_an_object(self, calls: Calls) -> None:
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": {
                "answer": {"type": "string"},
                "suggestedQuestions": {"type": "array", "items": {"type": "string"}},
                "usedReferences": {"type": "array", "items": {"type": "integer"}},
            },
            "required": ["answer"],
        }
        data = calls.chat_json(SYSTEM, QUESTION, schema=schema)
        assert isinstance(data["answer"], str)

    def test_a_trivial_schema_is_answered_with_an_object(self, calls: Calls) -> None:
        assert calls.chat_json(SYSTEM, QUESTION, schema={"type": "object"}) is not None

    def test_a_long_conversation_is_accepted(self, calls: Calls) -> None:
        assert calls.chat({"role": "user", "content": "Apfel " * 100_000}, use_cache=False)["text"]


class TestEmbeddings:
    def test_a_document_comes_back_in_chunks(self, calls: Calls) -> None:
        text = "\n\n".join(f"# Kapitel {n}\n\n" + "Ein Satz über Äpfel. " * 60 for n in range(5))
        chunks = calls.embed_document(text, document_id="a.pdf")
        assert len(chunks) > 5
        for chunk in chunks:
            assert text[chunk["start_char"] : chunk["end_char"]] == chunk["text"]
            assert chunk["embedding"] == vector(chunk["text"], 2048)

    def test_a_question_comes_back_as_one_chunk(self, calls: Calls) -> None:
        assert calls.embed_question("Sind Äpfel rot?\n\n# Oder grün?")


class TestImages:
    def test_an_image_is_generated(self, calls: Calls) -> None:
        (image,) = calls.generate_image("Ein Apfel", useCache=False)
        opened = Image.open(io.BytesIO(base64.b64decode(image["image_base64"])))
        assert opened.size == (1024, 1024)

    def test_four_variants_have_their_seeds(self, calls: Calls) -> None:
        seeds = [101, 102, 103, 104]
        images = calls.generate_image("Ein Apfel", n=4, seeds=seeds, size="1792x1024")
        assert [image["seed"] for image in images] == seeds


class TestConferences:
    def test_a_talk_is_stored_from_its_archive(self, calls: Calls, tmp_path: Path) -> None:
        with conference(tmp_path) as url:
            output = calls.process_session(**talk(url, "Forks"))
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(output["archive_data"]))) as archive:
            names = archive.namelist()
            path = next(each for each in names if each.endswith(".md") and "/" in each)
            markdown = archive.read(path).decode()
        assert len(PurePosixPath(path).parts) == 4
        assert PurePosixPath(path).parts[1] == "de"
        assert output["markdown_file"].endswith(path)
        assert output["archive_filename"].endswith(".zip")
        fields = front_matter(markdown)
        assert isinstance(fields["speakers"], list)
        for slide in fields.get("slides", []):
            assert slide["image_url"] in names
        for reference in references(markdown):
            target = PurePosixPath(path).parent / reference
            assert _normal(str(target)) in names or reference in names

    def test_tracks_are_summarized(self, calls: Calls, tmp_path: Path) -> None:
        with conference(tmp_path) as url:
            calls.process_session(**talk(url, "Forks", track="Gärten & Parks"))
            calls.process_session(**talk(url, "Seeds", track="Gärten & Parks"))
        tracks = calls.available_tracks()["tracks"]
        assert tracks
        name = next(each["track_name"] for each in tracks if each["session_count"] >= 2)
        assert calls.summarize_track(name)["status"] == "success"
        summary = calls.summarize_all_tracks()
        assert summary["successful_tracks"] >= 1 and summary["failed_tracks"] == 0

    def test_an_unknown_track_is_reported(self, calls: Calls) -> None:
        with pytest.raises(ServiceError) as raised:
            calls.summarize_track("Gibt es / nicht")
        assert raised.value.status == 404 and raised.value.message


class TestErrors:
    def test_a_wrong_key_is_reported(self, service: Running) -> None:
        stranger = Calls(f"{service.url}/api", "wrong")
        with pytest.raises(ServiceError) as raised:
            stranger.translate("Ein Text.", "de", "en")
        stranger.close()
        assert (raised.value.status, raised.value.code) == (401, "UNAUTHORIZED")

    def test_an_empty_file_is_reported(self, calls: Calls) -> None:
        with pytest.raises(ServiceError) as raised:
            calls.read_picture(("leer.png", b"", "image/png"))
        assert raised.value.message

    def test_every_field_of_the_application_is_known(self, calls: Calls) -> None:
        """It would see a warning for each field that the service ignores."""
        responses = [
            calls.submit_pdf(PDF),
            calls.submit_pdf_by_method(PDF, "native"),
            calls.submit_office(("a.docx", a_docx(), DOCX)),
        ]
        assert [response.json().get("warnings") or [] for response in responses] == [[], [], []]

    def test_a_misspelt_field_is_named(self, calls: Calls) -> None:
        response = calls.submit("pdf/process", PDF, extraction_metod="native")
        (warning,) = response.json()["warnings"]
        assert "extraction_metod" in warning["message"]
        assert "extraction_method" in warning["message"]


PROGRAMME = """<!DOCTYPE html><html lang="en"><head><title>Programme</title></head><body><ul>
<li class="talk"><a href="/talk.html">Forks</a> Gardens</li>
<li class="talk"><a href="/talk.html">Seeds</a> Gardens</li></ul></body></html>"""
TALK = """<!DOCTYPE html><html lang="en"><head><title>Forked Communities</title></head>
<body><h1>Forked Communities</h1><p>What happens to a community when its project is licensed anew?
We look at three forks and at what became of the people who worked on them.</p>
<a href="/slides.pdf">Slides</a></body></html>"""


@cache
def slides() -> bytes:
    return scan_of(words(text="Three forks"), words(text="Questions"))


def conference(directory: Path) -> Any:
    """The URL of its website."""
    (directory / "talk.html").write_text(TALK)
    (directory / "programme.html").write_text(PROGRAMME)
    (directory / "slides.pdf").write_bytes(slides())
    return files_in(directory)


def talk(url: str, name: str, **fields: Any) -> dict[str, Any]:
    return {
        "event": "FOSDEM 2031",
        "session": f"{name}: what becomes of them",
        "url": f"{url}/talk.html",
        "filename": f"{name}.md",
        "track": "Main-Track",
        "day": "2031-02-01",
        "starttime": "10:00",
        "endtime": "10:50",
        "speakers": ["Ada Müller", "Bram van Dijk"],
        "speakers_url": [f"{url}/ada", f"{url}/bram"],
        "speakers_image_url": [],
        "video_url": "",
        "video_transcript": WORDS,
        "attachments_url": f"{url}/slides.pdf",
        "target": "library",
        **fields,
    }


def _normal(path: str) -> str:
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
