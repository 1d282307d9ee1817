"""Job type `transformer`: summarizes, translates or rewrites a text, or applies a template."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import PurePath
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from ..core.callables import LazyCallable
from ..core.errors import FileTooLarge, UnsupportedFile
from ..core.files import OFFICE_TYPES, safe_name
from ..core.languages import UNSPECIFIED, is_same_language, language_code
from ..documents.assembly import MARKDOWN_FILE, RESULTS_FILE
from ..documents.text_output import OUTPUT_FILES, RESULT_FILE, TargetFormat, TextOutput
from ..jobs.handler import JobContext, handles
from ..jobs.job_log import counted
from ..llm.templates import Rendered, Template
from ..llm.templates.rendering import asks_for_links, list_template
from ..storage.sources import source_url
from ..web.selectors import to_xpath
from ..web.talk import Article
from .document_pipeline import Document, PageOptions, check_source
from .office import read_office
from .parameters import (
    MAX_TEXT,
    TemplateParameters,
    TransformerResults,
    is_from_cache,
    text_field,
    with_requested_model,
)
from .pdf import read_pdf
from .progress import ScaledReporter, StepProgress
from .text_generation import (
    ITEMS,
    DetailLevel,
    LlmCache,
    apply_template,
    open_llm_cache,
    read_if_exists,
    requested_template,
    rewrite,
    summarize,
    template_metadata,
)
from .translation import detect_text_language, translate_markdown

READ_ARTICLE: LazyCallable[Article] = LazyCallable("web.page", "read_article", returns=Article)
WRITE: LazyCallable[None] = LazyCallable("documents.text_output", "write_text_output", returns=None)

#: For a text of hundreds of parts and a slow endpoint.
TIMEOUT = timedelta(hours=12)

SOURCES = ("url", "file_path", "file_source")
TASKS = ("template", "template_content", "summarize", "target_language", "instructions")
FORMAT_ALIASES = {"md": "markdown", "txt": "text", "plain": "text", "htm": "html"}
READABLE = OFFICE_TYPES | {"pdf"}
#: Suffixes of text files that are tables.
TABLES = frozenset({".csv", ".tsv"})


def _canonical_format(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    name = value.strip().lower()
    return FORMAT_ALIASES.get(name, name)


class TransformerParameters(TemplateParameters):
    summarize: bool = Field(default=False, description="Summarize the text")
    detail_level: DetailLevel = Field(default="normal", description="Length of the summary")
    instructions: str | None = text_field(10_000, "What to do with the text, or how")
    target_format: Annotated[TargetFormat | None, BeforeValidator(_canonical_format)] = Field(
        default=None, validate_default=True, description="Format of the result; default `markdown`"
    )
    container_selector: str | None = text_field(
        500, "Elements of a web page to read, as a CSS selector or an XPath"
    )
    #: The last field, because whether it is required depends on the others.
    text: str | None = Field(
        default=None,
        max_length=MAX_TEXT,
        validate_default=True,
        description="The text itself, instead of a file",
    )

    @field_validator("source_language", "target_language")
    @classmethod
    def _is_known_language(cls, language: str | None, info: ValidationInfo) -> str | None:
        name = (language or "").strip().lower()
        if name and language_code(name) is None:
            if info.field_name == "target_language" or name not in UNSPECIFIED:
                raise ValueError(f"{language!r} is not a known language")
            return None
        return language if name else None

    @field_validator("container_selector")
    @classmethod
    def _is_a_selector(cls, selector: str | None) -> str | None:
        if selector is None or not selector.strip():
            return None
        to_xpath(selector)
        return selector.strip()

    @field_validator("target_format")
    @classmethod
    def _has_a_task(cls, wanted: TargetFormat | None, info: ValidationInfo) -> TargetFormat | None:
        is_complete = all(name in info.data for name in TASKS)  # else another field is invalid
        if wanted is None and is_complete and not any(info.data[name] for name in TASKS):
            raise ValueError(f"nothing to do: send this or one of {', '.join(TASKS)}")
        return wanted

    @field_validator("text")
    @classmethod
    def _is_the_only_source(cls, text: str | None, info: ValidationInfo) -> str | None:
        others = [name for name in SOURCES if info.data.get(name)]
        if text is None and not others and all(name in info.data for name in SOURCES):
            raise ValueError("a text, a file or a url is required")
        if text is not None and others:
            raise ValueError(f"send either this or {others[0]}, not both")
        if text is not None and not text.strip():
            raise ValueError("it is empty")
        return text

    @property
    def is_plain(self) -> bool:
        """Neither a template nor a summary. Those are written in the target language and by the
        instructions in the first place."""
        return not (self.template or self.template_content or self.summarize)

    @property
    def needs_model(self) -> bool:
        """Whether a model is needed apart from the fields of a template."""
        if not self.is_plain:
            return self.summarize
        is_translated = self.target_language and not is_same_language(
            self.source_language, self.target_language
        )
        return bool(is_translated or self.instructions)


TransformerContext = JobContext[TransformerParameters]


@handles("transformer", TransformerParameters, timeout=TIMEOUT, io_bound=True)
async def transformer(ctx: TransformerContext) -> TransformerResults:
    await ctx.progress("initializing", 0)
    parameters = ctx.parameters
    llm, warnings = with_requested_model(ctx.llm, "chat", parameters)
    ctx = replace(ctx, llm=llm)
    template = await requested_template(ctx)
    if parameters.needs_model:
        ctx.llm.model("chat")
    text = parameters.text
    source = SourceText(text=text) if text is not None else await _read_file(ctx, template)
    if not source.text.strip():
        raise UnsupportedFile("There is no text in the source")
    if template and source.selected > 1 and not any(one.name == ITEMS for one in template.fields):
        template = list_template(template)
    transformation = _Transformation(ctx, source, source.text)
    await ctx.log(f"Text: {len(source.text):,} characters")
    await transformation.run(template)
    if transformation.llm:
        await ctx.log(transformation.llm.summary())
    await ctx.progress("postprocessing", 95)
    for warning in warnings:
        await ctx.log(warning.message, "warning")
    results = await _write_results(transformation)
    return results.model_copy(update={"warnings": warnings})


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceText:
    """The text to transform, as Markdown or plain text."""

    text: str
    #: File name without suffix.
    name: str = "text"
    title: str | None = None
    language: str | None = None
    url: str | None = None
    file_name: str | None = None
    is_web_page: bool = False
    #: How many elements of a web page were selected.
    selected: int = 0


async def _read_file(ctx: TransformerContext, template: Template | None) -> SourceText:
    await ctx.progress("downloading_or_opening", 5)
    document = await check_source(await ctx.source(), READABLE)
    url = source_url(ctx.parameters)
    file_name, title, language, selected = document.source.name, None, None, 0
    name = PurePath(file_name).stem
    is_web_page = document.file_type == "html" and url is not None
    if is_web_page and url is not None:
        read = partial(
            READ_ARTICLE,
            selector=ctx.parameters.container_selector,
            with_links=template is not None and asks_for_links(template),
        )
        limit = ctx.documents.conversion_timeout
        article = await ctx.run(read, document.path, url, wall_time=limit)
        text, title, language = article.text, article.title, article.language
        selected = article.selected
        name = PurePath(urlsplit(url).path).stem or name
    elif document.file_type == "text" and PurePath(file_name).suffix.lower() not in TABLES:
        text = await asyncio.to_thread(_read_plain_text, document.path)
    else:
        text, title, language = await _read_document(ctx, document)
    if len(text) > MAX_TEXT:
        raise FileTooLarge(
            f"The text has {len(text):,} characters; the limit is {MAX_TEXT:,}",
            characters=len(text),
            limit=MAX_TEXT,
        )
    return SourceText(
        text=text,
        name=name or "text",
        title=title,
        language=language,
        url=url,
        file_name=file_name,
        is_web_page=is_web_page,
        selected=selected,
    )


def _read_plain_text(path: str) -> str:
    from ..documents.office.text import decode_text, read_limited

    return decode_text(read_limited(path))


async def _read_document(
    ctx: TransformerContext, document: Document
) -> tuple[str, str | None, str | None]:
    """The text, title and language of a document, as its own job type reads it. The files are in a
    scratch directory."""
    reader = replace(
        ctx,
        attempt_directory=str(ctx.scratch / "source"),
        parameters=ctx.parameters.model_copy(update={"template": None, "template_content": None}),
        reporter=ScaledReporter(ctx.reporter, 5, 20),
    )
    if document.file_type == "pdf":
        results = await read_pdf(reader, document, PageOptions(method="auto"))
    else:
        results = await read_office(reader, document)
    text = await asyncio.to_thread(read_if_exists, reader.directory / MARKDOWN_FILE)
    return text, results.metadata.get("title"), results.metadata.get("language")


@dataclass(slots=True)
class _Transformation:
    """Runs the requested steps one after the other, each on the text the previous one returned."""

    ctx: TransformerContext
    source: SourceText
    text: str
    rendered: Rendered | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    llm: LlmCache | None = None

    async def run(self, template: Template | None) -> None:
        parameters = self.ctx.parameters
        language = language_code(parameters.source_language or "")
        language = language or await asyncio.to_thread(detect_text_language, self.text)
        # Web pages come last: what they declare is often the language of the CMS.
        language = language or language_code(self.source.language or "")
        self.metadata["source_language"] = language
        await self.ctx.log(f"Language: {language or 'unknown'}")
        target, instructions = parameters.target_language, parameters.instructions
        if target:
            self.metadata["target_language"] = language_code(target)
        if parameters.summarize:
            level = self.metadata["detail_level"] = parameters.detail_level
            options = {"level": level, "language": target, "instructions": instructions}
            await self._run_step("summarizing", 80, summarize, **options)
        elif parameters.is_plain and target and not is_same_language(language, target):
            options = {"source": language, "target": target, "instructions": instructions}
            await self._run_step("translating", 94, translate_markdown, **options)
        elif parameters.is_plain:
            if target:
                await self.ctx.log("The text is already in the target language; not translated")
            if instructions:  # without any, only the format changes
                await self._run_step("rewriting", 94, rewrite, instructions=instructions)
        if template:
            await self._apply(template)

    async def _run_step(
        self, step: str, last_percent: int, change: Callable[..., Awaitable[str]], **options: Any
    ) -> None:
        progress = await self._begin(step, 20, last_percent)
        self.text = await change(await self._open_llm(), self.text, progress=progress, **options)

    async def _begin(self, step: str, first_percent: int, last_percent: int) -> StepProgress:
        await self.ctx.progress(step, first_percent)
        return StepProgress(self.ctx, step, first_percent, last_percent)

    async def _open_llm(self) -> LlmCache:
        self.llm = self.llm or await open_llm_cache(self.ctx, self.source.text)
        return self.llm

    async def _apply(self, template: Template) -> None:
        parameters, source = self.ctx.parameters, self.source
        known = {"title": source.title, "file_name": source.file_name, "url": source.url}
        context = {name: value for name, value in known.items() if value}
        progress = await self._begin("filling_template", 80 if parameters.summarize else 20, 94)
        fields = counted(len(template.fields), "field")
        await self.ctx.log(f"Template {template.name}: {fields} for the model to fill")
        self.rendered = await apply_template(
            self.ctx,
            self.text,
            template,
            context={**context, **(parameters.context or {})},
            target_language=parameters.target_language,
            instructions=parameters.instructions,
            llm=await self._open_llm() if template.fields else None,
            progress=progress,
        )
        if ITEMS in self.rendered.structured_data:
            self.rendered = replace(self.rendered, structured_data=self._item_list(self.rendered))
        self.text = self.rendered.markdown
        self.metadata |= template_metadata(template, self.rendered)

    def _item_list(self, rendered: Rendered) -> dict[str, Any]:
        selector = self.ctx.parameters.container_selector
        selectors = {"selectors": {"container": selector}} if selector else {}
        items = rendered.structured_data[ITEMS]
        return {**selectors, **rendered.structured_data, "item_count": len(items)}

    @property
    def text_of_web_page(self) -> str | None:
        """Clients that apply a template to a web page read its text, or the selected items, from
        `text`, and the document from `markdown_content`."""
        if not self.source.is_web_page or self.rendered is None:
            return None
        if self.ctx.parameters.target_format is not None:
            return None
        if self.source.selected and ITEMS in self.rendered.structured_data:
            items = self.rendered.structured_data[ITEMS]
            return json.dumps(items, ensure_ascii=False, indent=2)
        return self.source.text


async def _write_results(transformation: _Transformation) -> TransformerResults:
    ctx, source, llm = transformation.ctx, transformation.source, transformation.llm
    metadata, rendered = transformation.metadata, transformation.rendered
    target_format: TargetFormat = ctx.parameters.target_format or "markdown"
    title = rendered.front_matter.get("title") if rendered else None
    output = TextOutput(
        directory=str(ctx.directory),
        markdown=transformation.text,
        structured_data=rendered.structured_data if rendered else None,
        target_format=target_format,
        front_matter=rendered.front_matter if rendered else None,
        title=title if title and isinstance(title, str) else source.title,
        language=metadata.get("target_language") or metadata.get("source_language"),
        text=transformation.text_of_web_page,
    )
    if target_format in ("html", "text"):  # parsing Markdown takes time
        await ctx.run(WRITE, output, wall_time=ctx.documents.conversion_timeout)
    else:
        await asyncio.to_thread(WRITE, output)
    known = {"file_name": source.file_name, "title": source.title, "url": source.url, **metadata}
    await ctx.log(f"Output: {len(transformation.text):,} characters as {target_format}")
    return TransformerResults(
        text_file=OUTPUT_FILES[target_format],
        markdown_file=RESULT_FILE,
        archive_filename=safe_name(f"{source.name}_files.zip"),
        context=ctx.parameters.context,
        is_from_cache=llm is not None and is_from_cache(ctx, processed=llm.requests_sent > 0),
        metadata={
            **{name: value for name, value in known.items() if value is not None},
            "target_format": target_format,
            "characters": len(source.text),
        },
        llm_info=ctx.llm.info(),
        more_in=RESULTS_FILE,
    )
