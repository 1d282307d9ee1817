"""Job type `transformer`: a text made into another, by a template, an instruction, a language."""

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from ..core.languages import UNSPECIFIED, is_same_language, language_code
from ..documents.text_output import TargetFormat
from ..jobs.handler import JobContext, handles
from ..llm.templates import Rendered, Template
from .cache_policy import is_from_cache
from .llm_cache import LlmCache, answers_about
from .parameters import MAX_TEXT, LanguageParameters
from .subjobs import Steps
from .text_generation import (
    DetailLevel,
    apply_template,
    rewritten,
    summarised,
    told_about,
    wanted_template,
)
from .text_sources import SourceText, source_text, text_results
from .translation import language_of_text, translated_text

#: Of a text with hundreds of parts, on a slow endpoint.
TIMEOUT = timedelta(hours=12)

SOURCES = ("url", "file_path", "file_source")
WISHES = ("template", "template_content", "summarize", "target_language", "instructions")
FORMATS = {"md": "markdown", "txt": "text", "plain": "text", "htm": "html"}


def _format(value: Any) -> Any:
    told = value.strip().lower() if isinstance(value, str) else value
    return FORMATS.get(told, told) if isinstance(told, str) else told


class TransformerParameters(LanguageParameters):
    summarize: bool = Field(default=False, description="A summary of the text")
    detail_level: DetailLevel = Field(default="normal", description="How long a summary is")
    instructions: str | None = Field(
        default=None, max_length=10_000, description="What to do with the text, or how"
    )
    target_format: Annotated[TargetFormat | None, BeforeValidator(_format)] = Field(
        default=None, validate_default=True, description="Markdown, if nothing is said"
    )
    #: The last one, because what it needs depends on the others.
    text: str | None = Field(
        default=None, max_length=MAX_TEXT, validate_default=True, description="Instead of a file"
    )

    @field_validator("source_language", "target_language")
    @classmethod
    def _is_known(cls, language: str | None, info: ValidationInfo) -> str | None:
        told = (language or "").strip().lower()
        if told and language_code(told) is None:
            if info.field_name == "target_language" or told not in UNSPECIFIED:
                raise ValueError(f"{language!r} is no language that is known")
            return None
        return language if told else None

    @field_validator("target_format")
    @classmethod
    def _is_a_wish(cls, wanted: TargetFormat | None, info: ValidationInfo) -> TargetFormat | None:
        is_whole = all(name in info.data for name in WISHES)  # else another field is at fault
        if wanted is None and is_whole and not any(info.data[name] for name in WISHES):
            names = ", ".join(WISHES)
            raise ValueError(f"nothing is asked for: send this, or one of {names}")
        return wanted

    @field_validator("text")
    @classmethod
    def _is_the_source(cls, text: str | None, info: ValidationInfo) -> str | None:
        others = [name for name in SOURCES if info.data.get(name)]
        if text is None and not others and all(name in info.data for name in SOURCES):
            raise ValueError("a text, a file or a url is needed")
        if text is not None and others:
            raise ValueError(f"send either this or {others[0]}, not both")
        if text is not None and not text.strip():
            raise ValueError("it is empty")
        return text

    @property
    def is_plain(self) -> bool:
        """Neither a template nor a summary: those are written in the other language, and as the
        instructions say, at once."""
        return not (self.template or self.template_content or self.summarize)

    @property
    def needs_model(self) -> bool:
        """Beside a template, which knows itself."""
        if not self.is_plain:
            return self.summarize
        is_other = self.target_language and not is_same_language(
            self.source_language, self.target_language
        )
        return bool(is_other or self.instructions)


@handles("transformer", TransformerParameters, timeout=TIMEOUT)
async def transformer(ctx: JobContext[TransformerParameters]) -> dict[str, Any]:
    await ctx.progress("initializing", 0)
    template = await wanted_template(ctx)
    if ctx.parameters.needs_model:
        ctx.llm.model("chat")
    source = await source_text(ctx)
    work = _Work(ctx, source, template)
    await work.run()
    await ctx.progress("postprocessing", 95)
    return await text_results(
        ctx,
        source,
        markdown=work.text,
        rendered=work.rendered,
        facts=work.facts,
        is_from_cache=work.is_from_cache,
    )


@dataclass(slots=True)
class _Work:
    """What is asked for, one thing after the other, each on what the one before has made."""

    ctx: JobContext[TransformerParameters]
    source: SourceText
    template: Template | None
    text: str = ""
    rendered: Rendered | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    answers: LlmCache | None = None

    @property
    def is_from_cache(self) -> bool:
        return self.answers is not None and is_from_cache(self.ctx, made=self.answers.asked > 0)

    async def run(self) -> None:
        wish, self.text = self.ctx.parameters, self.source.text
        language = self.facts["source_language"] = await self._language()
        if wish.target_language:
            self.facts["target_language"] = language_code(wish.target_language)
        if wish.summarize:
            await self._summarise()
        elif wish.is_plain and wish.target_language:
            if not is_same_language(language, wish.target_language):
                await self._translate(language, wish.target_language)
            else:
                await self.ctx.log("The text is in this language already; it is not translated")
                await self._rewrite()
        elif wish.is_plain:
            await self._rewrite()
        if self.template:
            await self._fill(self.template)

    async def _language(self) -> str | None:
        """Two letters. What a page says of itself is often that of the site's program."""
        told = language_code(self.ctx.parameters.source_language or "")
        told = told or await asyncio.to_thread(language_of_text, self.text)
        return told or language_code(self.source.language or "")

    async def _answers(self) -> LlmCache:
        self.answers = self.answers or await answers_about(self.ctx, self.source.text)
        return self.answers

    async def _summarise(self) -> None:
        wish = self.ctx.parameters
        self.facts["detail_level"] = wish.detail_level
        await self.ctx.progress("summarizing", 20)
        self.text = await summarised(
            await self._answers(),
            self.text,
            level=wish.detail_level,
            language=wish.target_language,
            instructions=wish.instructions,
            steps=Steps(self.ctx, "summarizing", 20, 80),
        )

    async def _rewrite(self) -> None:
        """Without instructions there is nothing to do: only another format is wanted."""
        wish = self.ctx.parameters
        if wish.instructions:
            await self.ctx.progress("rewriting", 20)
            self.text = await rewritten(
                await self._answers(),
                self.text,
                instructions=wish.instructions,
                steps=Steps(self.ctx, "rewriting", 20, 94),
            )

    async def _translate(self, language: str | None, target: str) -> None:
        await self.ctx.progress("translating", 20)
        self.text = await translated_text(
            await self._answers(),
            self.text,
            source=language,
            target=target,
            instructions=self.ctx.parameters.instructions,
            steps=Steps(self.ctx, "translating", 20, 94),
        )

    async def _fill(self, template: Template) -> None:
        wish, source = self.ctx.parameters, self.source
        await self.ctx.progress("filling_template", 80 if wish.summarize else 20)
        told = {"title": source.title, "file_name": source.file_name, "url": source.url}
        known = {name: value for name, value in told.items() if value}
        rendered = await apply_template(
            self.ctx,
            self.text,
            template,
            context={**known, **(wish.context or {})},
            target_language=wish.target_language,
            instructions=wish.instructions,
            answers=await self._answers() if template.fields else None,
            steps=Steps(self.ctx, "filling_template", 80 if wish.summarize else 20, 94),
        )
        for warning in rendered.warnings:
            await self.ctx.log(warning, "warning")
        self.text, self.rendered = rendered.markdown, rendered
        self.facts |= told_about(template, rendered)
