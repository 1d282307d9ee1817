"""Job type `office`: documents, sheets and slides as Markdown."""

from ..errors import EngineUnavailable
from ..handler import JobContext, Results, handles
from .parameters import LanguageParameters


class OfficeParameters(LanguageParameters):
    include_images: bool = False
    via_pdf: bool = False


@handles("office", OfficeParameters)
async def office(ctx: JobContext[OfficeParameters]) -> Results:
    raise EngineUnavailable("This version has no engine for office files")
