"""What the parameters of all document job types have in common."""

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
from ..llm.templates import parse

MAX_TEXT = 10_000_000
#: `deu`, `deu+eng`, `de-DE`: how languages are named to an OCR engine.
LANGUAGES = r"^[A-Za-z_-]+(\+[A-Za-z_-]+)*$"
OCR_LANGUAGE = "For OCR, like `deu+eng`; told from the text if it is not said"


def _both_spellings(name: str) -> AliasChoices:
    return AliasChoices(name, to_camel(name))


def _from_text(value: Any) -> Any:
    """A form has only texts: what is a mapping in JSON comes as JSON."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return None
    try:
        return json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        raise ValueError("it must be JSON") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _words(value: Any) -> Any:
    """`a, b` as a list: a form has no lists."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


JsonObject = Annotated[dict[str, Any] | None, BeforeValidator(_from_text)]
Words = Annotated[list[str], BeforeValidator(_words)]


class Spelled(BaseModel):
    """Each field is known as `use_cache` and as `useCache`. What nobody declared is kept."""

    model_config = ConfigDict(
        extra="allow", alias_generator=AliasGenerator(validation_alias=_both_spellings)
    )


class SourceParameters(Spelled):
    """One of `file` (an upload), `url`, `file_path` and `file_source` says what to work on."""

    url: str | None = Field(default=None, max_length=8000, description="Where the file is")
    file_path: str | None = Field(
        default=None, max_length=4000, description="A file under one of `storage.source_roots`"
    )
    file_source: JsonObject = Field(default=None, description="`{type, path | value}`")
    use_cache: bool = Field(default=True, description="Use earlier work on the same file")
    force_refresh: bool = Field(default=False, description="Do it again although it is known")
    force_overwrite: bool = Field(default=False, description="Another name of `force_refresh`")


class LanguageParameters(SourceParameters):
    """For what is read, said or written."""

    source_language: str | None = Field(
        default=None, max_length=35, description="The language of the source, like `de`"
    )
    target_language: str | None = Field(
        default=None, max_length=35, description="The language of the result, like `en`"
    )
    template: str | None = Field(
        default=None, max_length=200, description="The name of a template for the result"
    )
    template_content: str | None = Field(
        default=None, max_length=MAX_TEXT, description="A template itself, instead of a name"
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
