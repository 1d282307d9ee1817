"""`transformer/*` as an existing client application calls it: what it sends, and what it reads."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ..client_front_matter import client_front_matter
from ..llm_server import LlmServer, Reads, Reply, says
from ..service_fixture import ServiceClient
from ..web_server import Web, WebRequest, serving
from .test_transformer_jobs import ENGLISH, backwards, system, talking

TEMPLATE = "/api/transformer/template"

BOOK = """---
docType: {{docType|Eine aus: report, study, other}}
title: {{title|Titel des Dokuments}}
shortTitle: {{shortTitle|Kurztitel, max. 40 Zeichen}}
authors: {{authors|Verfasser des Dokuments (Array von Strings)}}
tags: {{tags|Array, kleingeschrieben}}
keywords: {{keywords|Stichwörter, kommagetrennt}}
year: {{year|Erscheinungsjahr, YYYY oder null}}
subtitle: {{subtitle|Untertitel (optional)}}
chapters: {{chapters|Array von Objekten mit title, level (1-3), page (Zahl oder null)}}
Datum: {{date|Datum, yyyy-mm-dd}}
file: {{fileName}}
detailViewType: book
creation:
  supportedSources:
    - id: upload
---
# {{title|Der Titel noch einmal, anders beschrieben}}

{{bodyInText|Der Text als Markdown: {Einleitung, Hauptteil}}}

--- systemprompt
Answer in {target_language}.
---
{"title": "string", "authors": "string[]"}
---
The author is called Jo.
"""
ANSWER: dict[str, Any] = {
    "docType": "study",
    "title": 'Über "Äpfel": rot',
    "shortTitle": "Äpfel",
    "authors": ["Jo Müller", 'Anna "A." B'],
    "tags": ["apfel", "obst"],
    "keywords": "apfel, obst",
    "year": None,
    "chapters": [{"title": "Eins", "level": 1, "page": None}],
    "date": "2026-01-31",
    "bodyInText": "Erste Zeile\n\n- Punkt",
}
CONTEXT = {
    "fileName": "apfel.pdf",
    "knownNames": ["Jo Müller"],
    "knownNamesHint": "Use these spellings",
    "availableMedia": [{"name": "cover.jpg", "mimeType": "image/jpeg", "source": "file"}],
}


def body(**more: Any) -> dict[str, Any]:
    """The JSON of the client's template phase, with its constant fields."""
    return {
        "text": "Äpfel sind rot.",
        "template_content": BOOK,
        "source_language": "de",
        "target_language": "de",
        "context": CONTEXT,
        "additional_field_descriptions": {},
        "use_cache": False,
        "callback_url": None,
        "callback_token": None,
        "wait_ms": 0,
        **more,
    }


async def posted(service: ServiceClient, path: str = TEMPLATE, **request: Any) -> dict[str, Any]:
    response = await service.client.post(path, **request)
    assert response.status_code == 200, response.text
    envelope: dict[str, Any] = response.json()
    assert envelope["status"] == "success"
    data: dict[str, Any] = envelope["data"]
    return data


def user(request: dict[str, Any]) -> str:
    return str(request["messages"][-1]["content"])


class TestText:
    async def test_all_variables_come_back_flat_and_typed(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says(json.dumps(ANSWER))) as (service, server):
            data = await posted(service, json=body())
        assert data["structured_data"] == ANSWER
        (request,) = server.requests
        assert system(request).startswith("Answer in de.\n---\n")
        assert "The author is called Jo." in system(request)
        for value in ("knownNamesHint", "Use these spellings", "cover.jpg", "Jo Müller"):
            assert value in user(request)

    async def test_the_document_has_a_front_matter_that_both_readers_understand(
        self, tmp_path: Path
    ) -> None:
        async with talking(tmp_path, says(json.dumps(ANSWER))) as (service, _):
            data = await posted(service, json=body())
        text = data["text"]
        head = {
            "docType": "study",
            "title": 'Über "Äpfel": rot',
            "shortTitle": "Äpfel",
            "authors": ["Jo Müller", 'Anna "A." B'],
            "tags": ["apfel", "obst"],
            "keywords": "apfel, obst",
            "chapters": [{"title": "Eins", "level": 1, "page": None}],
            "Datum": "2026-01-31",
            "file": "apfel.pdf",
            "detailViewType": "book",
        }
        assert client_front_matter(text) == head
        assert yaml.safe_load(text.split("\n---\n")[0]) == head
        assert text.endswith('---\n\n# Über "Äpfel": rot\n\nErste Zeile\n\n- Punkt\n')

    async def test_multipart_with_windows_line_ends_gives_the_same(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says(json.dumps(ANSWER))) as (service, _):
            fields = {
                "text": "Äpfel\r\nsind rot.",
                "target_language": "de",
                "template_content": BOOK.replace("\n", "\r\n"),
                "context": json.dumps(CONTEXT),
                "use_cache": "false",
            }
            files = {name: (None, value) for name, value in fields.items()}
            data = await posted(service, files=files)
        assert data["structured_data"] == ANSWER
        assert "\r" not in data["text"]
        assert client_front_matter(data["text"])["detailViewType"] == "book"

    async def test_a_template_is_found_by_the_names_that_the_client_uses(
        self, tmp_path: Path
    ) -> None:
        async with talking(tmp_path, Reads(filled)) as (service, _):
            for name in ("Besprechung", "Gedanken", "Interview", "Zusammenfassung", "Youtube"):
                fields = {"text": "Hallo", "target_language": "de", "template": name}
                data = await posted(
                    service, files={key: (None, value) for key, value in fields.items()}
                )
                assert {"title", "summary", "messages"} <= data["structured_data"].keys()
                assert client_front_matter(data["text"])["Type"] == name
            response = await service.client.post(
                TEMPLATE, json={"text": "x", "template": "Nowhere"}
            )
        assert response.status_code == 400
        assert "not found" in response.json()["error"]["message"]

    async def test_an_answer_that_does_not_fit_is_an_error_and_no_value(
        self, tmp_path: Path
    ) -> None:
        wrong = {**ANSWER, "authors": "Error: could not extract"}
        async with talking(tmp_path, says(json.dumps(wrong))) as (service, _):
            response = await service.client.post(TEMPLATE, json=body(max_attempts=1))
        assert response.status_code == 502
        assert response.json()["error"]["code"] == "UPSTREAM_FAILED"
        assert "authors" in response.json()["error"]["message"]


class TestTranslations:
    FORM = """---
structured_data:
  title: {{title|Translated title}}
  subtitle: {{subtitle|Translated subtitle (optional)}}
  teaser: {{teaser|Translated teaser}}
  tags: {{tags|Array of strings}}
  chapters: {{chapters|Array of objects, with the same keys as in the source}}
---
"""
    SOURCE: dict[str, Any] = {  # noqa: RUF012
        "title": "Apples",
        "tags": ["fruit"],
        "chapters": [{"order": 1, "level": 1, "title": "One", "startPage": 3}],
    }

    async def test_fields_are_flat_and_what_the_source_lacks_is_left_out(
        self, tmp_path: Path
    ) -> None:
        chapters = [{"order": 1, "level": 1, "title": "Eins", "startPage": 3}]
        answer: dict[str, Any] = {
            "title": "Äpfel",
            "subtitle": None,
            "teaser": "",
            "tags": ["Obst"],
        }
        answer |= {"chapters": chapters}
        async with talking(tmp_path, says(json.dumps(answer))) as (service, _):
            source = json.dumps(self.SOURCE, indent=2)
            fields = body(text=source, template_content=self.FORM, context={}, use_cache=True)
            data = await posted(service, json=fields)
        assert data["structured_data"] == {"title": "Äpfel", "tags": ["Obst"], "chapters": chapters}


class TestTheModelTheClientChose:
    async def test_it_is_asked_and_its_answers_are_cached_apart(self, tmp_path: Path) -> None:
        async with talking(tmp_path, says(json.dumps(ANSWER))) as (service, server):
            for model in ("google/gemini-2.5-flash", "gpt-4.1-mini", "gpt-4.1-mini"):
                data = await posted(service, json=body(model=model, use_cache=True))
        assert [request["model"] for request in server.requests] == [
            "google/gemini-2.5-flash",
            "gpt-4.1-mini",
        ]
        assert "warnings" not in data["metadata"]

    async def test_a_configured_provider_is_used_and_an_unknown_one_is_named(
        self, tmp_path: Path
    ) -> None:
        async with talking(tmp_path, says(json.dumps(ANSWER))) as (service, server):
            data = await posted(service, json=body(provider="openrouter"))
            assert len(server.requests) == 1
        assert "openrouter" in data["warnings"][0]["message"]
        nowhere = {"base_url": "http://127.0.0.1:9/v1"}
        async with talking(
            tmp_path / "other", says(json.dumps(ANSWER)), providers={"mistral": nowhere}
        ) as (service, server):
            response = await service.client.post(
                TEMPLATE, json=body(provider="mistral", max_attempts=1)
            )
            assert not server.requests
        assert response.status_code == 502

    async def test_more_fields_are_asked_for(self, tmp_path: Path) -> None:
        more = {"isbn": "The ISBN (optional)", "title": "At most ten words", "places": "Array"}
        async with talking(tmp_path, Reads(filled)) as (service, server):
            for sent in (more, json.dumps(more)):
                data = await posted(service, json=body(additional_field_descriptions=sent))
                assert data["structured_data"]["isbn"] == "x"
                assert data["structured_data"]["places"] == ["x"]
            assert "Titel des Dokuments At most ten words" in user(server.requests[0])

    @pytest.mark.parametrize(
        "wrong",
        ["no json", [1], {"a b": "x"}, {"a": 1}, {"a": ""}, {"a": "x}} {{b"}, {"a": "x" * 20_000}],
    )
    async def test_descriptions_that_are_none_are_a_400(self, tmp_path: Path, wrong: Any) -> None:
        async with talking(tmp_path, Reads(filled)) as (service, server):
            fields = body(additional_field_descriptions=wrong)
            response = await service.client.post(TEMPLATE, json=fields)
            assert not server.requests
        assert response.status_code == 400, response.text
        assert "additional_field_descriptions" in response.json()["error"]["message"]


async def test_a_text_is_translated_and_summarised_by_the_chosen_model(tmp_path: Path) -> None:
    fields = {"text": ENGLISH, "source_language": "en", "target_language": "de", "use_cache": True}
    path = "/api/transformer/text"
    async with talking(tmp_path, Reads(backwards)) as (service, server):
        more = {"model": "gpt-4.1-mini", "provider": None, "context": {"a": 1}}
        data = await posted(service, path, json={**fields, **more})
        assert data["text"].strip() == f"«{ENGLISH}»"
        assert server.requests[0]["model"] == "gpt-4.1-mini"
    async with talking(tmp_path / "2", says("Kurz.")) as (service, _):
        data = await posted(
            service, path, json={**fields, "summarize": True, "target_format": "html"}
        )
        assert "<p>Kurz.</p>" in data["text"]


def filled(request: dict[str, Any]) -> Reply:
    schema = request["response_format"]["json_schema"]["schema"]
    return says(json.dumps({name: shortest(one) for name, one in schema["properties"].items()}))


def shortest(schema: dict[str, Any]) -> Any:
    schema = schema.get("anyOf", [schema])[0]
    if "enum" in schema:
        return schema["enum"][0]
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    match kinds[0]:
        case "array":
            return [shortest(schema["items"])]
        case "object":
            return {name: shortest(one) for name, one in schema.get("properties", {}).items()}
        case "integer" | "number":
            return 1
        case "boolean":
            return True
    return "x"


PROGRAMME = """<!DOCTYPE html><html lang="en"><head><title>Programme</title></head><body>
<nav><a href="/imprint">Imprint</a></nav><main><h1>Programme of the Fair</h1><ul>
{talks}
<li class="break">Lunch</li></ul></main></body></html>"""
ITEM = (
    '<li class="talk single-element"><a href="/talk/{n}">Talk {n}</a> <span>Track {t}</span></li>'
)
TALK = """<!DOCTYPE html><html lang="en"><head><title>Fair - Apples</title></head><body>
<nav><a href="/imprint">Imprint</a></nav><aside><a href="/speakers/jo">Jo</a>
<img src="/img/jo.jpg" alt="Jo"></aside><h1>Apples</h1><p>They are red.</p>
<video src="/talk.mp4"></video></body></html>"""


@asynccontextmanager
async def website(count: int = 3) -> AsyncIterator[Web]:
    talks = "\n".join(ITEM.format(n=n, t=n % 2) for n in range(count))
    pages = {"/programme": PROGRAMME.format(talks=talks), "/talk": TALK}

    async def answer(request: WebRequest) -> None:
        await request.answer(pages[request.target].encode(), headers={"Content-Type": "text/html"})

    async with serving(answer) as web:
        yield web


@asynccontextmanager
async def reading(
    tmp_path: Path, reply: Reply | Reads, **llm: Any
) -> AsyncIterator[tuple[ServiceClient, LlmServer, Web]]:
    allowed = {"network": {"allow_hosts": ["127.0.0.1"]}}
    count = llm.pop("count", 3)
    async with (
        website(count) as web,
        talking(tmp_path, reply, groups=allowed, **llm) as (service, server),
    ):
        yield service, server, web


def listed(request: dict[str, Any]) -> Reply:
    """A model that lists the links it sees."""
    links = [part.partition(")") for part in user(request).split("](")[1:]]
    schema = request["response_format"]["json_schema"]["schema"]["properties"]
    items = [{"track": "T", "title": url.rpartition("/")[2], "url": url} for url, _, _ in links]
    return says(json.dumps({**({"event": "Fair"} if "event" in schema else {}), "items": items}))


class TestWebPages:
    async def test_the_data_of_a_talk_is_read_with_links_images_and_video(
        self, tmp_path: Path
    ) -> None:
        async with reading(tmp_path, Reads(filled)) as (service, server, web):
            fields = {
                "url": web.url("/talk"),
                "source_language": "en",
                "target_language": "en",
                "template": "ExtractSessionDataFromWebsite",
                "use_cache": "false",
            }
            data = await posted(service, data=fields)
            seen = user(server.requests[0])
            for path in ("/speakers/jo", "/img/jo.jpg", "/talk.mp4", "/talk"):
                assert web.url(path) in seen
        assert "imprint" not in seen
        assert data["structured_data"]["session"] == "x"
        assert "They are red." in data["text"] and not data["text"].startswith("---")
        assert client_front_matter(data["markdown_content"])["speakers"] == ["x"]

    async def test_a_long_programme_is_listed_to_the_end(self, tmp_path: Path) -> None:
        async with reading(tmp_path, Reads(listed), count=300, context_tokens=4000) as (
            service,
            server,
            web,
        ):
            fields = {"url": web.url("/programme"), "template": "ExtractSessionListFromWebsite"}
            data = await posted(service, data=fields)
            assert len(server.requests) > 3
        answer = data["structured_data"]
        assert [item["title"] for item in answer["items"]] == [str(n) for n in range(300)]
        assert (answer["event"], answer["item_count"]) == ("Fair", 300)
        assert answer["items"][7]["url"] == web.url("/talk/7")
        assert "Programme of the Fair" in data["text"]

    @pytest.mark.parametrize(
        ("selector", "count"),
        [
            ("li.single-element", 3),
            ("main > ul > li.talk:nth-child(2)", 1),
            ("main li[class*='single']:first-child a", 1),
            ("//li[contains(@class, 'talk')]", 3),
        ],
    )
    async def test_a_container_is_selected_by_css_or_xpath(
        self, tmp_path: Path, selector: str, count: int
    ) -> None:
        async with reading(tmp_path, Reads(listed)) as (service, server, web):
            fields = {
                "url": web.url("/programme"),
                "template": "ExtractSessionListFromWebsite",
                "container_selector": selector,
            }
            data = await posted(service, data=fields)
            assert "Lunch" not in user(server.requests[0])
        answer = data["structured_data"]
        assert answer["item_count"] == len(answer["items"]) == count
        assert answer["selectors"] == {"container": selector}
        assert json.loads(data["text"]) == answer["items"]

    async def test_any_template_makes_a_list_of_several_containers(self, tmp_path: Path) -> None:
        form = "---\ntrack: {{track|Track}}\ntitle: {{title|Title}}\nurl: {{url|Address}}\n---\n"
        async with reading(tmp_path, Reads(listed)) as (service, _, web):
            fields = {
                "url": web.url("/programme"),
                "template_content": form,
                "container_selector": "li.talk",
            }
            data = await posted(service, data=fields)
        assert [item["title"] for item in data["structured_data"]["items"]] == ["0", "1", "2"]

    @pytest.mark.parametrize("selector", ["li:hover", "li[", ">", "a {}", "//li[", "string(//li)"])
    async def test_a_selector_that_cannot_be_used_is_named(
        self, tmp_path: Path, selector: str
    ) -> None:
        async with reading(tmp_path, Reads(listed)) as (service, _, web):
            fields = {
                "url": web.url("/programme"),
                "template": "ExtractSessionListFromWebsite",
                "container_selector": selector,
            }
            response = await service.client.post(TEMPLATE, data=fields)
        assert response.status_code == 400, response.text
        assert "container_selector" in response.json()["error"]["message"]
