"""Job type `transformer`: a text made into another by a template or an instruction."""

from pydantic import Field

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import MAX_TEXT, LanguageParameters


class TransformerParameters(LanguageParameters):
    text: str | None = Field(default=None, max_length=MAX_TEXT)
    target_format: str | None = Field(default=None, max_length=20)


@handles("transformer", TransformerParameters)
async def transformer(ctx: JobContext[TransformerParameters]) -> Results:
    raise EngineUnavailable("No language model is configured")
