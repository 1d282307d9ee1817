"""External services that jobs need, on loopback: a talk's page and a scripted language model."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from ..llm_server import KEY, Reads, Reply, llm_server, says
from ..minimal_files import pdf
from ..web_server import WebRequest, serving

THEME = "What happens to community {number} when its project is licensed anew?"
ORGANISERS = "Written by the organisers"
SLIDES = ("Three forks", "What the numbers say")
PAGE = """<!DOCTYPE html><html lang="en"><head><title>Forked communities {number}</title></head>
<body><h1>Forked communities {number}</h1><p>{theme} We look at three forks and at what became of
the people who worked on them.</p></body></html>"""
SUBTITLES = f"WEBVTT\n\n00:00.000 --> 00:02.000\n{ORGANISERS}\n"


@dataclass(frozen=True)
class ExternalServices:
    site: str
    model: dict[str, str]


@asynccontextmanager
async def external_services() -> AsyncIterator[ExternalServices]:
    async with serving(_answer) as web, llm_server(Reads(_reply)) as server:
        model = {
            "SECRETARY_LLM__BASE_URL": server.web.url("/v1"),
            "SECRETARY_LLM__API_KEY": KEY,
            "SECRETARY_LLM__MODEL": "scripted",
        }
        yield ExternalServices(web.url().rstrip("/"), model)


async def _answer(request: WebRequest) -> None:
    if (match := re.fullmatch(r"/event/(\d+)", request.target)) is not None:
        page = PAGE.format(number=match[1], theme=THEME.format(number=match[1]))
        await request.answer(page.encode(), headers={"Content-Type": "text/html"})
    elif request.target == "/slides.pdf":
        await request.answer(_slides(), headers={"Content-Type": "application/pdf"})
    elif request.target == "/talk.vtt":
        await request.answer(SUBTITLES.encode(), headers={"Content-Type": "text/vtt"})
    else:
        await request.answer(b"gone", status="404 Not Found")


@cache
def _slides() -> bytes:
    return pdf(*SLIDES)


def _reply(request: Mapping[str, Any]) -> Reply:
    """Fills in every field of a form; otherwise says which field the text is about."""
    asked = request.get("response_format") or {}
    if "json_schema" in asked:
        fields = asked["json_schema"]["schema"]["properties"]
        filled = {name: _value(name, field) for name, field in fields.items()}
        return says(json.dumps(filled))
    match = re.search(r"field (\d+)", str(request["messages"][-1]["content"]))
    return says(f"In short: field {match[1] if match else 'unknown'}.")


def _value(name: str, field: Mapping[str, Any]) -> Any:
    return ["one", "two"] if field.get("type") == "array" else f"About {name}"
