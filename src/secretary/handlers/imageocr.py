"""Job type `imageocr`: the text in a picture."""

from pydantic import Field

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import LanguageParameters


class ImageParameters(LanguageParameters):
    extraction_method: str = Field(default="ocr", max_length=50)
    ocr_language: str | None = Field(default=None, pattern=r"^[A-Za-z_]+(\+[A-Za-z_]+)*$")


@handles("imageocr", ImageParameters)
async def imageocr(ctx: JobContext[ImageParameters]) -> Results:
    raise EngineUnavailable("This version has no engine for the text in pictures")
