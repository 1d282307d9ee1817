"""Texts through the whole service: from the request to the document, with a scripted model."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from secretary.llm.templates import Library

from ..llm_server import KEY, LlmServer, Reads, Reply, fails, llm_server, says
from ..minimal_files import pdf
from ..model_server import ModelServer
from ..office_files import docx_of, paragraph
from ..service_fixture import ServiceClient, running_service
from ..web_server import WebRequest, serving
from .test_audio_jobs import silence

TEXT = "/api/transformer/text"
TEMPLATE = "/api/transformer/template"
GERMAN = "Das ist ein Text, der nicht auf Englisch ist, und er wird von dem Modell gelesen."
ENGLISH = "This is a text that is not in German, and it will be read by the model."

FORM = """---
title: {{title|The title}}
tags: {{tags|list: Keywords}}
event: {{event}}
language: {{target_language}}
kind: note
---
# {{title}}

{{summary|What it says}}

{{text}}
"""
NAMED = says(json.dumps({"title": "Named"}))
FILLED = {"title": "Apples", "tags": ["fruit", "red"], "summary": "About apples."}


@asynccontextmanager
async def talking(
    tmp_path: Path, *replies: Reply | Reads, **settings: Any
) -> AsyncIterator[tuple[ServiceClient, LlmServer]]:
    async with llm_server(*replies) as server:
        llm = {"base_url": server.web.url("/v1"), "api_key": KEY, "model": "scripted"}
        groups = settings.pop("groups", {})
        async with running_service(tmp_path, llm={**llm, **settings}, **groups) as service:
            yield service, server


async def made(service: ServiceClient, **parameters: Any) -> dict[str, Any]:
    job = await service.ended(await service.submit("transformer", **parameters))
    assert job["status"] == "completed", job["error"]
    results: dict[str, Any] = job["results"]
    return results


async def failed(service: ServiceClient, **parameters: Any) -> dict[str, Any]:
    body = {"job_type": "transformer", "parameters": parameters, "max_attempts": 1}
    response = await service.client.post("/api/jobs", json=body)
    assert response.status_code == 202, response.text
    job = await service.ended(response.json()["data"]["job_id"])
    assert job["status"] == "failed", job["results"]
    error: dict[str, Any] = job["error"]
    return error


def system(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"])


def material(request: dict[str, Any]) -> str:
    """The text between the markers."""
    match = re.search(r"(?s)(=====\w+)\n(.*)\n\1", str(request["messages"][-1]["content"]))
    assert match is not None
    return match[2]


def backwards(request: dict[str, Any]) -> Reply:
    """A translation that differs from its source."""
    pieces = json.loads(request["messages"][-1]["content"])
    return says(json.dumps({key: f"«{text}»" for key, text in pieces.items()}))


class TestWhatIsAskedFor:
    @pytest.mark.parametrize(
        ("fields", "named"),
        [
            ({"text": "x"}, "target_format: nothing to do"),
            ({"text": "x", "summarize": False}, "target_format: nothing to do"),
            ({"summarize": True}, "text: a text, a file or a url is required"),
            ({"text": " \n", "summarize": True}, "text: it is empty"),
            ({"text": "x", "url": "https://a.test", "summarize": True}, "text: send either"),
            ({"text": "x", "target_language": "klingon"}, "target_language: 'klingon' is no"),
            ({"text": "x", "target_language": "auto"}, "target_language: 'auto' is no"),
            ({"text": "x", "target_language": "de", "source_language": "qqq"}, "source_language:"),
            ({"text": "x", "target_format": "docx"}, "target_format:"),
            ({"text": "x", "summarize": True, "detail_level": "huge"}, "detail_level:"),
            ({"text": "x", "template_content": "{{a"}, "template_content: The template inline"),
            ({"text": "x", "template": "Notes", "context": "[1]"}, "context:"),
        ],
    )
    async def test_what_cannot_be_done_is_a_400_that_names_the_field(
        self, service: ServiceClient, fields: dict[str, Any], named: str
    ) -> None:
        for path, body in ((TEXT, fields), ("/api/jobs", job_of(fields))):
            response = await service.client.post(path, json=body)
            assert response.status_code == 400, response.text
            assert named in response.json()["error"]["message"]

    @pytest.fixture
    async def service(self, tmp_path: Path) -> AsyncIterator[ServiceClient]:
        async with running_service(tmp_path) as service:
            yield service

    @pytest.mark.parametrize(
        "parameters",
        [
            {"summarize": True},
            {"target_language": "de"},
            {"instructions": "Shorter"},
            {"template": "Notes"},
            {"template_content": FORM},
        ],
    )
    async def test_without_a_model_it_fails_before_any_work(
        self, service: ServiceClient, parameters: dict[str, Any]
    ) -> None:
        error = await failed(service, url="https://nowhere.test/never-fetched", **parameters)
        assert error["code"] == "ENGINE_UNAVAILABLE"
        assert "llm.model" in error["message"]

    async def test_a_template_that_is_not_there_is_named(self, service: ServiceClient) -> None:
        error = await failed(service, text="x", template="../../etc/passwd")
        assert error["code"] == "VALIDATION_ERROR"
        error = await failed(service, text="x", template="Nowhere")
        assert error["code"] == "VALIDATION_ERROR"
        assert "not found; there are Besprechung, Blog_de" in error["message"]

    async def test_what_needs_no_model_works_without(self, service: ServiceClient) -> None:
        results = await made(service, text="# A\n\n*b*", target_format="txt")
        assert results["text"] == "A\n\nb\n"
        results = await made(service, text="Hallo", source_language="de", target_language="de-AT")
        assert (results["text"], results["llm_info"]["requests"]) == ("Hallo", [])
        results = await made(
            service, text="Hallo", template_content="# {{x}}\n\n{{text}}", context={"x": "Y"}
        )
        assert results["text"] == "# Y\n\nHallo\n"
        assert results["structured_data"] == {}


def job_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {"job_type": "transformer", "parameters": fields}


class TestTemplates:
    async def test_a_text_becomes_a_document(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says(json.dumps(FILLED))) as (service, server):
            results = await made(
                service,
                text="An apple: red.",
                template_content=FORM,
                context={"event": 'The "Fair": 1'},
                target_language="de",
                instructions="Use short words.",
            )
            (request,) = server.requests
            assert material(request) == "An apple: red."
            assert "Write in German" in system(request) and "Use short words." in system(request)
            assert results["structured_data"] == FILLED
            assert results["text"] == results["markdown_content"]
            head = yaml.safe_load(results["text"].split("---\n")[1])
            assert head == {
                "title": "Apples",
                "tags": ["fruit", "red"],
                "event": 'The "Fair": 1',
                "language": "de",
                "kind": "note",
            }
            assert results["text"].endswith("# Apples\n\nAbout apples.\n\nAn apple: red.\n")
            assert (await service.get(results["markdown_file"])).text == results["text"]
            assert results["llm_info"]["total_tokens"] == 120
            assert results["metadata"]["template"] == "inline"
            assert results["metadata"]["front_matter"]["title"] == "Apples"
            assert await service.archived(results["archive_url"]) == ["result.md"]
        assert await service.leftovers() == []

    async def test_a_shipped_template_is_found_in_the_language_that_is_asked_for(
        self, tmp_path: Path
    ) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            schema = request["response_format"]["json_schema"]["schema"]
            return says(json.dumps({key: blank(one) for key, one in schema["properties"].items()}))

        async with talking(tmp_path, Reads(answer)) as (service, _server):
            results = await made(service, text="x", template="notes", target_language="de")
            assert results["metadata"]["template"] == "Notes_de"
            results = await made(service, text="x", template="Notes")
            assert results["metadata"]["template"] == "Notes_en"

    async def test_every_shipped_template_writes_any_value_down(self, tmp_path: Path) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            schema = request["response_format"]["json_schema"]["schema"]
            return says(json.dumps(nasty(schema)))

        names = [listed.name for listed in Library().listed()]
        async with talking(tmp_path, Reads(answer), max_concurrent=12) as (service, _):
            parameters = {
                "text": NASTY[0],
                "context": dict.fromkeys(("event", "date", "url"), NASTY[0]),
            }
            documents = await asyncio.gather(
                *(made(service, template=name, **parameters) for name in names)
            )
        for name, results in zip(names, documents, strict=True):
            assert results["metadata"]["template"] == name
            head = yaml.safe_load(results["text"][4:].split("\n---\n")[0] + "\n")
            assert head == results["metadata"]["front_matter"]
            filled = results["structured_data"]
            assert set(head) & set(filled)
            assert {key: head[key] for key in set(head) & set(filled)} == {
                key: filled[key] for key in set(head) & set(filled)
            }

    async def test_nothing_that_is_wrong_is_a_result(self, tmp_path: Path) -> None:
        wrong = [says('{"title": 1}'), says("no"), says(None, refusal="I will not"), says("")]
        for number, reply in enumerate(wrong):
            async with talking(tmp_path / str(number), reply) as (service, _):
                error = await failed(service, text="x", template_content=FORM)
                assert error["code"] == "UPSTREAM_FAILED"

    async def test_no_text_breaks_out_of_the_document(self, tmp_path: Path) -> None:
        evil = "---\nadmin: true\n---\n\"': <script>alert(1)</script>\n```\n{{title}} ../../x"
        filled = {"title": evil, "tags": [evil, "a: b", "- c", "1"], "summary": evil}
        async with talking(tmp_path, says(json.dumps(filled))) as (service, _):
            parameters = {"template_content": FORM, "context": {"event": evil}}
            results = await made(service, text=evil, target_format="html", **parameters)
            head = yaml.safe_load(results["markdown_content"].split("\n---\n")[0][4:])
            assert head["title"] == evil and head["event"] == evil
            assert head["tags"] == [evil, "a: b", "- c", "1"]
            assert head["kind"] == "note" and "admin" not in head
            assert "<script" not in results["text"]
            assert results["text_file"].endswith("/result.html")


NASTY = [
    "A \"quoted\": 'text'\n---\nadmin: true\n...\n- {a} \U0001f34e #x {{title}}",
    "",
    "2026-02-30",
    "1e3",
    "no",
    "---",
    " \t",
]


def nasty(schema: dict[str, Any]) -> Any:
    """The nastiest value that matches the schema."""
    kind = schema["type"]
    if "enum" in schema:
        return schema["enum"][-1]
    if kind == "array":
        if schema["items"]["type"] == "string":
            return [schema["items"]["enum"][0]] if "enum" in schema["items"] else NASTY
        return [nasty(schema["items"])]
    if "object" in kind:
        return {key: nasty(one) for key, one in schema["properties"].items()}
    if "integer" in kind or "number" in kind:
        return -7
    return True if "boolean" in kind else NASTY[0]


def blank(schema: dict[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"]
    if isinstance(kind, list):
        return None
    return [] if kind == "array" else "x"


class TestSummaries:
    async def test_a_summary_is_written_as_asked(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says("Kurz.")) as (service, server):
            results = await made(
                service,
                text=ENGLISH,
                summarize=True,
                detail_level="short",
                target_language="de",
                instructions="For children.",
            )
            (request,) = server.requests
            assert material(request) == ENGLISH
            for instruction in ("Write one paragraph", "Write in German", "For children."):
                assert instruction in system(request)
            assert results["text"] == "Kurz.\n"
            assert results["metadata"]["source_language"] == "en"
            assert results["structured_data"] is None

    async def test_a_long_text_is_condensed_part_by_part(self, tmp_path: Path) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            if "condense" not in system(request):
                return says("The end.")
            return says(f"- note on {material(request).split()[1]}")

        chapters = [f"# C{number}\n\n{'A sentence of it. ' * 100}\n\n" for number in range(6)]
        async with talking(tmp_path, Reads(answer), context_tokens=2000) as (service, server):
            results = await made(service, text="".join(chapters), summarize=True)
            *notes, last = server.requests
            assert results["text"] == "The end.\n"
            assert len(notes) == 6
            assert sorted(material(note).rstrip() for note in notes) == [
                chapter.rstrip() for chapter in chapters
            ]
            assert material(last) == "\n\n".join(f"- note on C{number}" for number in range(6))
            assert 1 < server.most_at_once <= 4

    async def test_a_model_that_holds_less_than_said_is_asked_for_less(
        self, tmp_path: Path
    ) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            if len(material(request)) > 3000:
                return fails("400 Bad Request", "This model's maximum context length is 1000")
            return says("- short" if "condense" in system(request) else "Done.")

        async with talking(tmp_path, Reads(answer)) as (service, _server):
            results = await made(service, text="Many words here. " * 600, summarize=True)
            assert results["text"] == "Done.\n"

    async def test_notes_that_get_no_shorter_end_the_job(self, tmp_path: Path) -> None:
        def answer(request: dict[str, Any]) -> Reply:
            return says(material(request))

        async with talking(tmp_path, Reads(answer), context_tokens=1000) as (service, _):
            error = await failed(service, text="Many words here. " * 600, summarize=True)
            assert error["code"] == "UPSTREAM_FAILED"
            assert "llm.context_tokens" in error["message"]


class TestTranslations:
    async def test_the_form_of_a_text_stays(self, tmp_path: Path) -> None:
        text = f"---\nid: 7\n---\n# Title\n\n{ENGLISH}\n\n```py\nx = 'code'\n```\n\n- one\n- two\n"
        async with talking(tmp_path, Reads(backwards)) as (service, server):
            results = await made(service, text=text, target_language="Deutsch")
            expected = text.replace("# Title", "«# Title»").replace(ENGLISH, f"«{ENGLISH}»")
            assert results["text"] == expected.replace("- one\n- two", "«- one\n- two»")
            assert "from English into German" in system(server.requests[0])
            assert results["metadata"]["target_language"] == "de"

    async def test_a_text_that_is_in_the_language_stays_as_it_is(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says("never")) as (service, server):
            results = await made(service, text=GERMAN, target_language="de")
            assert results["text"] == GERMAN
            assert server.requests == []

    async def test_a_long_text_is_translated_in_order(self, tmp_path: Path) -> None:
        text = "".join(f"Paragraph {number} {'is long ' * 40}\n\n" for number in range(100))
        async with talking(tmp_path, Reads(backwards)) as (service, server):
            results = await made(service, text=text, source_language="en", target_language="fr")
            assert results["text"].replace("«", "").replace("»", "") == text
            assert len(server.requests) > 5 and server.most_at_once > 1

    async def test_what_was_translated_before_a_failure_is_not_asked_again(
        self, tmp_path: Path
    ) -> None:
        text = "".join(f"Paragraph {number} {'is long ' * 40}\n\n" for number in range(100))
        count = 0

        def answer(request: dict[str, Any]) -> Reply:
            nonlocal count
            count += 1
            return fails("401 Unauthorized") if count == 6 else backwards(request)

        async with talking(tmp_path, Reads(answer), max_concurrent=1) as (service, _):
            parameters = {"text": text, "source_language": "en", "target_language": "fr"}
            assert (await failed(service, **parameters))["code"] == "ENGINE_UNAVAILABLE"
            results = await made(service, **parameters)
            assert results["text"].count("«") == 100 and not results["is_from_cache"]
            again = await made(service, **parameters)
            assert again["text"] == results["text"]
            assert again["is_from_cache"] and again["llm_info"]["requests"] == []
            fresh = await made(service, **parameters, use_cache=False)
            assert not fresh["is_from_cache"]
            counts = [len(one["llm_info"]["requests"]) for one in (results, fresh)]
            assert counts[0] < counts[1]


class TestInstructions:
    async def test_a_text_is_rewritten(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says("Better.")) as (service, server):
            results = await made(service, text="Good.", instructions="Make it better")
            assert results["text"] == "Better.\n"
            assert "Make it better" in system(server.requests[0])
            parameters = {"source_language": "en", "target_language": "en"}
            results = await made(service, text="Good.", instructions="Make it best", **parameters)
            assert (results["text"], len(server.requests)) == ("Better.\n", 2)

    async def test_a_code_fence_around_the_answer_is_removed(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says("```markdown\n# Better\n```")) as (service, _):
            results = await made(service, text="Good.", instructions="Make it better")
            assert results["text"] == "# Better\n"


class TestFormats:
    async def test_json_is_the_fields_or_the_text(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says(json.dumps(FILLED))) as (service, _):
            results = await made(service, text="x", target_format="json", template_content=FORM)
            assert results["structured_data"] == FILLED == json.loads(results["text"])
            assert (await service.get(results["text_file"])).json() == FILLED
            results = await made(service, text="*x*", target_format="json")
            assert results["structured_data"] == {"text": "*x*"}

    async def test_a_waiting_client_receives_the_text(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            body = {"text": "# A", "target_format": "html", "wait_ms": 20_000}
            response = await service.client.post(TEXT, json=body)
            assert response.status_code == 200
            assert "<h1>A</h1>" in response.json()["data"]["text"]


class TestSources:
    async def test_files_are_read_by_their_kinds(self, tmp_path: Path) -> None:
        files = {
            "a.md": b"# Title\n\nWords of *it*",
            "a.txt": "Größe".encode("cp1252"),
            "a.csv": b"a,b\n1,2\n",
            "a.html": b"<!doctype html><html><body><h1>Title</h1><p>Words</p></body></html>",
            "a.docx": docx_of(paragraph("Words of a letter")),
            "a.pdf": pdf("Words on a page"),
        }
        async with running_service(tmp_path) as service:
            reading = [
                service.read(TEXT, content, name, target_format="markdown")
                for name, content in files.items()
            ]
            results_by_file = dict(zip(files, await asyncio.gather(*reading), strict=True))
            texts = {name: results["text"].strip() for name, results in results_by_file.items()}
            assert texts["a.md"] == "# Title\n\nWords of *it*"
            assert texts["a.txt"] == "Größe"
            assert texts["a.csv"].startswith("| a | b |")
            assert texts["a.html"] == "# Title\n\nWords"
            assert texts["a.docx"] == "Words of a letter"
            assert texts["a.pdf"] == "Words on a page"
            assert results_by_file["a.pdf"]["metadata"]["file_name"] == "a.pdf"
            assert await service.archived(results_by_file["a.pdf"]["archive_url"]) == ["result.md"]
        assert await service.leftovers() == []

    async def test_a_page_of_the_web_is_read_without_its_menu(self, tmp_path: Path) -> None:
        page = (
            "<!doctype html><html lang='de'><head><title>Apples</title></head><body>"
            "<nav><a href='/x'>Menu</a></nav><main><h1>Apples</h1>"
            + "<p>Apples are fruit that grow on trees, and they are red.</p>" * 5
            + "<script>alert(1)</script></main><footer>Imprint</footer></body></html>"
        )

        async def answer(request: WebRequest) -> None:
            await request.answer(page.encode(), headers={"Content-Type": "text/html"})

        async with serving(answer) as web:
            groups = {"network": {"allow_hosts": ["127.0.0.1"]}}
            async with running_service(tmp_path, **groups) as service:
                results = await made(service, url=web.url("/apples.html"), target_format="markdown")
        assert results["text"].startswith("# Apples\n\nApples are fruit")
        assert "Menu" not in results["text"] and "alert" not in results["text"]
        assert results["metadata"]["title"] == "Apples"
        assert results["metadata"]["source_language"] == "en"  # whatever the site says
        assert results["archive_filename"] == "apples_files.zip"

    async def test_a_file_without_text_is_refused(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            error = await service.refused(TEXT, b" \n ", "a.txt", target_format="html")
            assert error["code"] == "UNSUPPORTED_FILE"


class TestTemplatesOnOtherJobs:
    FORM = "---\ntitle: {{title|The title}}\nfile: {{file_name}}\n---\n# {{title}}\n\n{{text}}\n"

    async def test_a_pdf_becomes_a_document(self, tmp_path: Path) -> None:
        async with talking(tmp_path, NAMED) as (service, server):
            content = pdf("Words on a page")
            plain = await service.read("/api/pdf/process", content, "a.pdf")
            assert plain["structured_data"] is None and server.requests == []
            results = await service.read(
                "/api/pdf/process", content, "a.pdf", template_content=self.FORM
            )
            (request,) = server.requests
            assert material(request).strip() == "Words on a page"
            assert results["structured_data"] == {"title": "Named"}
            document = "---\ntitle: Named\nfile: a.pdf\n---\n\n# Named\n\nWords on a page\n"
            assert results["markdown_content"] == document
            assert (await service.get(results["markdown_file"])).text == document
            assert results["extracted_text"] == plain["extracted_text"]
            assert results["metadata"]["text_contents"] == plain["metadata"]["text_contents"]
            assert not results["is_from_cache"]
            assert results["llm_info"]["total_tokens"] == 120
            again = await service.read("/api/pdf/process", content, "a.pdf")
            assert again["markdown_content"] == plain["markdown_content"]
            assert len(server.requests) == 1

    async def test_a_letter_and_a_transcript_become_documents(self, tmp_path: Path) -> None:
        (tmp_path / "talk.wav").write_bytes(silence(3))
        (tmp_path / "talk.en.vtt").write_text(
            "WEBVTT\n\n00:00.000 --> 00:02.000\nWritten by hand\n"
        )
        groups = {"storage": {"source_roots": [str(tmp_path)]}}
        async with talking(tmp_path / "data", NAMED, groups=groups) as (service, _):
            docx = docx_of(paragraph("Dear all"))
            results = await service.read(
                "/api/office/process", docx, "a.docx", template_content=self.FORM
            )
            assert results["markdown_content"].endswith("# Named\n\nDear all\n")
            job_id = await service.submit(
                "audio", file_path="talk.wav", template_content=self.FORM, source_language="en"
            )
            job = await service.ended(job_id)
            assert job["status"] == "completed", job["error"]
            results = job["results"]
            assert results["transcription"]["text"] == "Written by hand"
            assert results["structured_data"] == {"title": "Named"}
            assert results["markdown_content"].startswith("---\ntitle: Named\n")
            assert "Written by hand" in results["markdown_content"]

    async def test_it_is_refused_before_any_work(self, tmp_path: Path) -> None:
        async with running_service(tmp_path) as service:
            for job_type in ("pdf", "office", "imageocr", "audio", "video"):
                parameters = {"url": "https://nowhere.test/never-fetched"}
                job = await service.ended(
                    await service.submit(job_type, **parameters, template="Notes")
                )
                assert job["error"]["code"] == "ENGINE_UNAVAILABLE", job_type
                job = await service.ended(
                    await service.submit(job_type, **parameters, template="Nowhere")
                )
                assert job["error"]["code"] == "VALIDATION_ERROR", job_type

    async def test_without_a_text_there_is_no_document(self, tmp_path: Path) -> None:
        async with talking(tmp_path, NAMED) as (service, server):
            parameters = {"extraction_method": "preview", "template_content": self.FORM}
            error = await service.refused("/api/pdf/process", pdf("Words"), "a.pdf", **parameters)
            assert error["code"] == "UNSUPPORTED_FILE"
            assert server.requests == []


class TestRealModel:
    """Small and not clever: only the form is checked."""

    @asynccontextmanager
    async def service(
        self, tmp_path: Path, server: ModelServer, **parameters: Any
    ) -> AsyncIterator[ServiceClient]:
        llm = {
            "base_url": f"{server.address}/v1",
            "model": "smollm2",
            "chat_parameters": {"temperature": 0, "repeat_penalty": 1.1, **parameters},
        }
        async with running_service(tmp_path, llm=llm) as service:
            yield service

    async def test_it_fills_a_template(self, tmp_path: Path, model_server: ModelServer) -> None:
        form = (
            "---\nkind: {{kind|one of fruit | animal: What it is}}\n"
            "is_red: {{is_red|boolean: Is it red?}}\nname: {{name}}\n---\n{{text}}\n"
        )
        async with self.service(tmp_path, model_server) as service:
            results = await made(
                service,
                text="An apple is red.",
                template_content=form,
                context={"name": 'A: "b"'},
            )
        assert results["structured_data"]["kind"] in ("fruit", "animal")
        assert results["structured_data"]["is_red"] in (True, False, None)
        head = yaml.safe_load(results["text"].split("---\n")[1])
        assert head == {**results["structured_data"], "name": 'A: "b"'}
        assert results["llm_info"]["total_tokens"] > 50

    async def test_it_summarises(self, tmp_path: Path, model_server: ModelServer) -> None:
        async with self.service(tmp_path, model_server, stop=[".", "\n"]) as service:
            text = "Apples grow on trees. They are red, green or yellow. People eat them raw."
            results = await made(service, text=text, summarize=True, detail_level="short")
        assert results["text"].strip()
        assert "=====" not in results["text"]
