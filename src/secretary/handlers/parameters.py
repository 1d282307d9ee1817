"""Parameters that several job types share, their use of the cache, and the results of each built-in
job type."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
)
from pydantic.alias_generators import to_camel

from ..core.errors import InvalidTemplate
from ..core.job import JobWarning
from ..core.json_codec import encode_json
from ..jobs.handler import JobContext
from ..llm import Llm, Purpose
from ..llm.templates import Template, parse, with_fields
from ..storage import append_log
from ..storage.cache import CacheEntry
from ..version import __version__

MAX_TEXT = 10_000_000


def parse_json(value: Any) -> Any:
    """Forms have text fields only, so objects arrive as JSON text."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        # `int` raises ValueError for NaN and Infinity, which are not JSON.
        return json.loads(value, parse_constant=int)
    except (ValueError, RecursionError):
        raise ValueError("it must be JSON") from None


def _split_commas(value: Any) -> Any:
    """Forms have no lists, so `a, b` stands for one."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def text_field(max_length: int, description: str) -> Any:
    """An optional text of limited length."""
    return Field(default=None, max_length=max_length, description=description)


def ocr_language_field() -> Any:
    """`deu`, `deu+eng`, `de-DE`: language names as OCR engines take them."""
    return Field(
        default=None,
        pattern=r"^[A-Za-z_-]+(\+[A-Za-z_-]+)*$",
        description="OCR languages, such as `deu+eng`. Detected automatically if omitted.",
    )


JsonObject = Annotated[dict[str, Any] | None, BeforeValidator(parse_json)]
StringList = Annotated[list[str], BeforeValidator(_split_commas)]


class CacheParameters(BaseModel):
    """The use of the cache. Fields are accepted in snake case and in camel case; unknown ones are
    kept with the job, and a warning names them."""

    model_config = ConfigDict(
        alias_generator=AliasGenerator(
            validation_alias=lambda name: AliasChoices(name, to_camel(name))
        ),
    )

    #: Fields that clients send to any job type and no handler reads: no warning names them. Job
    #: types add their own.
    ignored_fields: ClassVar[frozenset[str]] = frozenset({"job_id"})

    use_cache: bool = Field(default=True, description="Reuse cached work on the same input")
    force_refresh: bool = Field(
        default=False, description="Process the input again, ignoring the cache"
    )
    force_overwrite: bool = Field(default=False, description="Alias of `force_refresh`")


class SourceParameters(CacheParameters):
    """The source: an uploaded `file`, or one of `url`, `file_path` and `file_source`."""

    url: str | None = text_field(8000, "URL of the file")
    file_path: str | None = text_field(4000, "Path of a file below `storage.source_roots`")
    file_source: JsonObject = Field(default=None, description="`{type, path | value}`")


def strict_field() -> Any:
    return Field(
        default=False, description="Fail if the text cannot be translated, instead of a warning"
    )


class LanguageParameters(SourceParameters):
    """Parameters of job types that read or write text in some language."""

    source_language: str | None = text_field(35, "Language of the source, such as `de`")
    target_language: str | None = text_field(35, "Language of the result, such as `en`")
    template: str | None = text_field(200, "Name of the template to apply to the result")
    template_content: str | None = text_field(MAX_TEXT, "The template itself, instead of its name")
    context: JsonObject = Field(default=None, description="Values for the template")

    @property
    def wants_template(self) -> bool:
        return bool(self.template or self.template_content)

    @field_validator("template_content")
    @classmethod
    def _is_a_template(cls, text: str | None) -> str | None:
        if text:
            try:
                parse(text)
            except InvalidTemplate as error:
                raise ValueError(error.message) from None
        return text


class ModelParameters(CacheParameters):
    """The model that a request names, instead of the one in the settings."""

    model: str | None = text_field(200, "Name of the model, instead of the one in the settings")
    provider: str | None = text_field(
        100, "One of `llm.providers`; others are ignored with a warning"
    )


MAX_DESCRIPTION = 10_000


class TemplateParameters(LanguageParameters, ModelParameters):
    """Parameters of job types whose result a model writes by a template."""

    additional_field_descriptions: Annotated[dict[str, str] | None, BeforeValidator(parse_json)] = (
        Field(default=None, description="More fields for the template, or more about its fields")
    )

    @field_validator("additional_field_descriptions")
    @classmethod
    def _are_fields(cls, descriptions: dict[str, str] | None) -> dict[str, str] | None:
        for name, description in (descriptions or {}).items():
            if len(description) > MAX_DESCRIPTION:
                raise ValueError(f"{name[:40]!r}: longer than {MAX_DESCRIPTION:,} characters")
        if descriptions:
            try:
                with_fields(Template(name="inline"), descriptions)
            except InvalidTemplate as error:
                raise ValueError(error.message) from None
        return descriptions


def with_requested_model(
    llm: Llm, purpose: Purpose, parameters: ModelParameters
) -> tuple[Llm, list[JobWarning]]:
    """The models with the one that the request names, and a warning if its provider is unknown."""
    warnings = []
    provider = parameters.provider
    if provider is not None and provider not in llm.options.providers:
        text = f"provider: {provider!r} is not configured; the request went to the default provider"
        warnings.append(JobWarning(code="UNKNOWN_PROVIDER", message=text))
    return llm.with_model(purpose, parameters.model, provider), warnings


def reusable_since(ctx: JobContext[CacheParameters]) -> float:
    """The Unix time from which cached work may be reused; 0 for all of it.

    Work of the job's own earlier attempts may always be reused: an attempt that failed on page
    180 has processed 179.
    """
    parameters = ctx.parameters
    if parameters.use_cache and not (parameters.force_refresh or parameters.force_overwrite):
        return 0.0
    ends = [attempt.ended_at for attempt in ctx.job.attempts if attempt.error is None]
    return max([ctx.job.created_at, *(end for end in ends if end)]).timestamp()


def is_from_cache(ctx: JobContext[CacheParameters], *, processed: bool) -> bool:
    """Whether all work was cached before the job began, rather than by an earlier attempt."""
    job = ctx.job
    return not processed and not (job.failures or job.crashes or job.losses)


@dataclass(frozen=True, slots=True)
class RecordCache:
    """JSON values by number in a cache entry. Each is stored as soon as it is made, so that an
    attempt that was interrupted continues where it stopped."""

    entry: CacheEntry
    since: float
    #: The values that were there when the cache was opened.
    cached: Mapping[int, append_log.RecordRef]

    @staticmethod
    async def open(
        ctx: JobContext[CacheParameters],
        kind: str,
        sha256: str,
        method: str,
        *,
        options: Mapping[str, Any],
        made_with: str = "",
    ) -> "RecordCache":
        version = ", ".join(filter(None, (f"secretary {__version__}", made_with)))
        entry = await ctx.entry(kind, sha256, method, options=options, version=version)
        since = reusable_since(ctx)
        cached = await asyncio.to_thread(append_log.index, str(entry.directory), made_after=since)
        return RecordCache(entry, since, cached)

    async def load_or_make(self, number: int, make: Callable[[], Awaitable[Any]]) -> Any:
        def load() -> list[Any]:
            try:
                return [json.loads(line) for line in append_log.read([self.cached[number]])]
            except (KeyError, OSError):  # not cached, or the cache was emptied in the meantime
                return []

        if values := await asyncio.to_thread(load):
            return values[0]
        record = encode_json(await make())
        await asyncio.to_thread(self.append, number, record)
        return await asyncio.to_thread(json.loads, record)

    def append(self, number: int, record: bytes) -> None:
        append_log.append(str(self.entry.directory), number, record, not_before=self.since)
        self.entry.touch()


class Results(BaseModel):
    """Fields that every job type with a document as its result has in common.

    Files are given by their names; `with_urls` in `storage.artifacts` turns them into URLs.
    """

    markdown_file: str | None
    markdown_content: str | None = None
    archive_filename: str | None
    context: dict[str, Any] | None
    metadata: dict[str, Any]
    warnings: list[JobWarning] = []
    llm_info: dict[str, Any]
    #: Name of the file with the rest of the results, which is too long for the store. The fields
    #: that are read from it are None here.
    more_in: str


class FileResults(Results):
    """Results of a job that converts one file. Cached work may have been reused for them."""

    assets: list[str]
    asset_dir: str | None
    target_dir: str | None
    is_from_cache: bool


class DocumentResults(FileResults):
    """Results of `pdf`, `office` and `imageocr` jobs."""

    extracted_text: str | None = None
    extracted_text_file: str | None
    page_texts: list[str]
    page_markdown_file: str | None
    pages_archive: str | None
    images_archive: str | None
    previews_archive: str | None
    #: With `mistral_ocr`: the document in the form of that API, what it says about the document as
    #: a whole, and the archive of the figures.
    mistral_ocr_raw_file: str | None = None
    mistral_ocr_raw_metadata: dict[str, Any] | None = None
    mistral_ocr_images_archive: str | None = None


class SubtitleFiles(BaseModel):
    srt: str
    vtt: str


class Frame(BaseModel):
    """A slide of a video, shown from `time` to `end` (in seconds)."""

    time: float
    end: float
    file: str
    #: Left out of the JSON where the text was not requested.
    text: str | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class KeptRecording(BaseModel):
    """The file to play, or why the recording was not kept with the results."""

    file: str | None
    media_type: str | None
    file_size: int
    not_kept: str | None


class RecordingResults(FileResults):
    """Results of `audio` and `video` jobs."""

    transcription: None = None
    transcript_file: str | None
    subtitles: SubtitleFiles | None
    original_subtitles: SubtitleFiles | None
    frames: list[Frame]
    recording: KeptRecording
    #: Not part of the metadata: clients take metadata with chapters for a finished analysis.
    chapters: list[dict[str, Any]]


class TransformerResults(Results):
    text: str | None = None
    text_file: str
    structured_data: dict[str, Any] | None = None
    is_from_cache: bool


class AnswerResults(TransformerResults):
    """Results of `chat` and `imageanalyzer` jobs."""

    warnings: list[JobWarning]


class EmbeddingResults(Results):
    """The chunks with their vectors are in the results file."""

    document_id: str | None
    chunks: None = None
    total_chunks: int
    embedding_model: str
    embedding_dimensions: int
    created_at: str
    is_from_cache: bool


class ImageFile(BaseModel):
    file: str
    image_format: str
    #: Such as `1024x1024`.
    size: str
    #: None if the model accepts no seeds.
    seed: int | None


class ImageResults(Results):
    """Results of `text2image` jobs. The first image is described at the top level as well."""

    prompt: str | None = None
    model: str
    image_format: str
    size: str
    seed: int | None
    images: list[ImageFile]
    assets: list[str]
    is_from_cache: bool
    warnings: list[JobWarning]


class PartError(BaseModel):
    code: str
    message: str


class MissingPart(BaseModel):
    """A part of a talk that could not be processed."""

    part: str
    url: str | None
    error: PartError


class TrackResults(Results):
    structured_data: dict[str, Any] | None = None
    target_dir: str


class SlideInfo(BaseModel):
    """A slide of a talk. `image_url` is the path of its image in the archive; `time` is when the
    video shows it first, in seconds."""

    page_num: int
    title: str
    summary: str
    image_url: str
    time: float | None = None


class SessionResults(Results):
    web_text: str | None = None
    video_transcript: str | None = None
    attachments_text: str | None = None
    structured_data: dict[str, Any] | None = None
    attachments_url: str | None
    assets: list[str]
    asset_dir: str
    target_dir: str
    page_texts: list[str]
    slides: list[SlideInfo]
    missing: list[MissingPart]
    #: The directory of which the archive is made.
    archive_root: str
