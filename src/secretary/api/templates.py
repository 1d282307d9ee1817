"""Routes for templates: which exist, and which fields each one fills in."""

import asyncio
from typing import Annotated, Literal

from fastapi import Path, Request
from fastapi.responses import JSONResponse
from pydantic import Field

from ..core.errors import NotFound, UnknownTemplate
from ..llm.templates import Library
from ..llm.templates.template import schema
from .auth import Caller
from .models import Envelope, JsonObject, ResponseModel
from .openapi import make_router
from .responses import success

router = make_router("templates", prefix="/api/templates")

TemplateName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        description="Case-insensitive, with or without a language suffix",
        examples=["Session_en"],
    ),
]


class TemplateField(ResponseModel):
    name: str
    type: str
    instruction: str


class TemplateFault(ResponseModel):
    line: int
    message: str


class TemplateSummary(ResponseModel):
    name: str
    title: str
    language: str | None
    source: Literal["own", "shipped"]
    fields: list[TemplateField]
    context_keys: list[str]
    faults: list[TemplateFault]


class TemplateList(ResponseModel):
    templates: list[TemplateSummary]


class Template(TemplateSummary):
    content: str | None
    system_prompt: str | None
    answer_schema: JsonObject | None = Field(
        alias="schema", description="The JSON Schema of the model's answer"
    )


@router.get("", response_model=Envelope[TemplateList])
async def list_templates(request: Request, user: Caller) -> JSONResponse:
    """List the templates with their fields. Faulty templates are listed with their faults."""
    entries = await asyncio.to_thread(_library(request).listed)
    return success(request, "templates", {"templates": [entry.document() for entry in entries]})


@router.get("/{name}", response_model=Envelope[Template])
async def get_template(request: Request, name: TemplateName, user: Caller) -> JSONResponse:
    """Return a template with its text and the JSON Schema of the model's answer."""
    try:
        entry = await asyncio.to_thread(_library(request).look_up, name)
    except UnknownTemplate as error:
        raise NotFound(error.message) from None
    template = entry.template
    details = {
        "content": template.source if template else None,
        "system_prompt": template.system_prompt if template else None,
        "schema": schema(template) if template else None,
    }
    return success(request, "templates", entry.document() | details)


def _library(request: Request) -> Library:
    library: Library = request.app.state.library
    return library
