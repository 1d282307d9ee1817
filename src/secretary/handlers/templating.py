"""Documents by a template: its fields filled by the model for chat, all else from what is known."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UnsupportedFile
from ..handler import JobContext
from ..processors.text_files import MADE_FILE, add_made
from ..processors.text_parts import tokens_of
from ..templates import Rendered, Template, messages, parse, render, schema
from .answers import Answers, answers_about
from .file_links import file_url
from .long_texts import asked_of_all
from .steps import Steps

MOST_AIM = 4000


async def wanted_template(ctx: JobContext[Any]) -> Template | None:
    """The template that the job names or brings, before any work: if there is no such one, or no
    model for its fields, the job fails here."""
    template = await named_template(ctx)
    if template is not None and template.fields:
        ctx.llm.model("chat")
    return template


async def named_template(ctx: JobContext[Any]) -> Template | None:
    """The same for a job that can do without a model."""
    given = ctx.parameters
    if given.template_content:
        name = given.template or "inline"
        return await asyncio.to_thread(parse, given.template_content, name)
    if given.template:
        return await asyncio.to_thread(
            ctx.templates.find, given.template, language=given.target_language
        )
    return None


async def apply_template(
    ctx: JobContext[Any],
    text: str,
    template: Template,
    *,
    context: Mapping[str, Any],
    target_language: str | None = None,
    instructions: str | None = None,
    answers: Answers | None = None,
    steps: Steps | None = None,
) -> Rendered:
    """The document that becomes of the text. `{{text}}` is always all of it; the model sees notes
    where it is too long."""
    language = target_language or template.language
    values = {"target_language": language, **context} if language else dict(context)
    filled: dict[str, Any] = {}
    if template.fields:
        steps = steps or Steps(ctx, "filling_template", 92, 98)
        answers = answers or await answers_about(ctx, text)
        filling = _Filling(answers, template, values, target_language, instructions)
        filled = await filling.filled(text, steps)
    return await asyncio.to_thread(render, template, values, filled, text)


class _Filling:
    def __init__(
        self,
        answers: Answers,
        template: Template,
        values: Mapping[str, Any],
        target_language: str | None,
        instructions: str | None,
    ) -> None:
        self._answers, self._template, self._values = answers, template, values
        self._target_language, self._instructions = target_language, instructions
        self._schema = schema(template)

    async def filled(self, text: str, steps: Steps) -> dict[str, Any]:
        asked = "".join(message["content"] for message in self._messages(""))
        return await asked_of_all(
            self._answers,
            text,
            self._fill,
            overhead=tokens_of(asked) + tokens_of(json.dumps(self._schema, ensure_ascii=False)),
            aim=self._aim(),
            steps=steps,
        )

    async def _fill(self, text: str) -> dict[str, Any]:
        return await self._answers.fill(self._messages(text), self._schema)

    def _messages(self, text: str) -> list[dict[str, str]]:
        system, *others = messages(
            self._template, self._values, text, target_language=self._target_language
        )
        if self._instructions:
            told = f"{system['content']}\n\nWhat the client wishes:\n{self._instructions}"
            system = {**system, "content": told}
        return [system, *others]

    def _aim(self) -> str:
        fields = (f"- {field.name}: {field.instruction}" for field in self._template.fields)
        return ("Fill these fields:\n" + "\n".join(fields))[:MOST_AIM]


def told_about(template: Template, rendered: Rendered) -> dict[str, Any]:
    """For `metadata` of the results."""
    told: dict[str, Any] = {"template": template.name}
    return {**told, "warnings": rendered.warnings} if rendered.warnings else told


async def with_template(
    ctx: JobContext[Any], results: dict[str, Any], markdown_file: str
) -> dict[str, Any]:
    """Results that are there already, with the document that the job's template makes of them.
    Nothing is changed, and nobody asked, where it names none."""
    template = await wanted_template(ctx)
    if template is None:
        return results
    text = await asyncio.to_thread(_read, ctx.directory / markdown_file)
    if not text.strip():
        raise UnsupportedFile("There is no text to which the template could be applied")
    known = {name: results["metadata"].get(name) for name in ("title", "file_name", "page_url")}
    rendered = await apply_template(
        ctx,
        text,
        template,
        context={**known, **(ctx.parameters.context or {})},
        target_language=ctx.parameters.target_language,
    )
    for warning in rendered.warnings:
        await ctx.log(warning, "warning")
    await asyncio.to_thread(
        add_made,
        str(ctx.directory),
        rendered.markdown,
        structured_data=rendered.structured_data,
        front_matter=rendered.front_matter,
    )
    return {
        **results,
        "markdown_file": file_url(ctx.job, MADE_FILE),
        "metadata": {**results["metadata"], **told_about(template, rendered)},
        "is_from_cache": results["is_from_cache"] and not ctx.llm.info()["requests"],
        "llm_info": ctx.llm.info(),
    }


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
