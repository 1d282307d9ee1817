"""Parameters that several job types share, and what they say about reusing cached work."""

import json
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    AliasGenerator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
)
from pydantic.alias_generators import to_camel

from ..core.errors import InvalidTemplate
from ..jobs.handler import JobContext
from ..llm.templates import parse

MAX_TEXT = 10_000_000
#: `deu`, `deu+eng`, `de-DE`: language names as OCR engines take them.
LANGUAGES = r"^[A-Za-z_-]+(\+[A-Za-z_-]+)*$"
OCR_LANGUAGE = "OCR languages, such as `deu+eng`. Detected automatically if omitted."


def _both_spellings(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


def _parse_json(value: Any) -> Any:
    """Forms have text fields only, so objects arrive as JSON text."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise ValueError("it must be JSON") from None


def _reject_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not valid JSON")


def _split_commas(value: Any) -> Any:
    """Forms have no lists, so `a, b` stands for one."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


JsonObject = Annotated[dict[str, Any] | None, BeforeValidator(_parse_json)]
StringList = Annotated[list[str], BeforeValidator(_split_commas)]


class SourceParameters(BaseModel):
    """The source (an uploaded `file`, or one of `url`, `file_path` and `file_source`) and the use
    of the cache. Fields are accepted in snake case and in camel case; unknown ones are kept."""

    model_config = ConfigDict(
        extra="allow", alias_generator=AliasGenerator(validation_alias=_both_spellings)
    )

    url: str | None = Field(default=None, max_length=8000, description="URL of the file")
    file_path: str | None = Field(
        default=None, max_length=4000, description="Path of a file below `storage.source_roots`"
    )
    file_source: JsonObject = Field(default=None, description="`{type, path | value}`")
    use_cache: bool = Field(default=True, description="Reuse cached work on the same file")
    force_refresh: bool = Field(
        default=False, description="Process the file again, ignoring the cache"
    )
    force_overwrite: bool = Field(default=False, description="Alias of `force_refresh`")


class LanguageParameters(SourceParameters):
    """Parameters of job types that read or write text in some language."""

    source_language: str | None = Field(
        default=None, max_length=35, description="Language of the source, such as `de`"
    )
    target_language: str | None = Field(
        default=None, max_length=35, description="Language of the result, such as `en`"
    )
    template: str | None = Field(
        default=None, max_length=200, description="Name of the template to apply to the result"
    )
    template_content: str | None = Field(
        default=None, max_length=MAX_TEXT, description="The template itself, instead of its name"
    )
    context: JsonObject = Field(default=None, description="Values for the template")

    @field_validator("template_content")
    @classmethod
    def _is_a_template(cls, text: str | None) -> str | None:
        if text:
            try:
                parse(text)
            except InvalidTemplate as error:
                raise ValueError(error.message) from None
        return text


def reusable_since(ctx: JobContext[SourceParameters]) -> float:
    """The Unix time from which cached work may be reused; 0 for all of it.

    Work of the job's own earlier attempts may always be reused: an attempt that failed on page
    180 has processed 179.
    """
    parameters = ctx.parameters
    if parameters.use_cache and not (parameters.force_refresh or parameters.force_overwrite):
        return 0.0
    ends = [attempt.ended_at for attempt in ctx.job.attempts if attempt.error is None]
    return max([ctx.job.created_at, *(end for end in ends if end)]).timestamp()


def is_from_cache(ctx: JobContext[SourceParameters], *, processed: bool) -> bool:
    """Whether all work was cached before the job began, rather than by an earlier attempt."""
    return not processed and not ctx.job.failures and not ctx.job.crashes
