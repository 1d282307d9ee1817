"""The routes for templates: which there are, and what each asks for."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse

from ..core.errors import NotFound, UnknownTemplate
from ..llm.templates import Library
from ..llm.templates.template import schema
from .auth import Caller
from .envelope import success

router = APIRouter(prefix="/api/templates", tags=["templates"])

Name = Annotated[
    str,
    Path(
        min_length=1,
        max_length=200,
        description="In any case, with or without a language",
        examples=["Session_en"],
    ),
]


@router.get("")
async def listed(request: Request, user: Caller) -> JSONResponse:
    """The templates there are, with their fields; also those that cannot be used, with why."""
    listed = await asyncio.to_thread(_library(request).listed)
    return success(request, "templates", {"templates": [one.document() for one in listed]})


@router.get("/{name}")
async def get_template(request: Request, name: Name, user: Caller) -> JSONResponse:
    """One template with its text and the JSON Schema that a model's answer must keep to."""
    try:
        listed = await asyncio.to_thread(_library(request).look_up, name)
    except UnknownTemplate as error:
        raise NotFound(error.message) from None
    template = listed.template
    more = {
        "content": template.source if template else None,
        "system_prompt": template.system_prompt if template else None,
        "schema": schema(template) if template else None,
    }
    return success(request, "templates", listed.document() | more)


def _library(request: Request) -> Library:
    library: Library = request.app.state.library
    return library
