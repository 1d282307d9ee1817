"""Job type `video`: what is said and shown in a video."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..errors import UnsupportedFile
from ..file_kinds import MOVING, SOUND
from ..handler import JobContext, handles
from .audio import TIMEOUT
from .documents import Document
from .looking import Frames, Looking
from .origins import find_recording
from .parameters import LANGUAGES, OCR_LANGUAGE
from .recorded import RecordingParameters, concluded, words_of
from .recordings import look_into
from .translating import check_translation

if TYPE_CHECKING:
    from ..processors.media.recording import Recording
    from ..sites.media import Want

#: Where listening ends and looking begins.
HALF_PERCENT = 65


class VideoParameters(RecordingParameters):
    include_transcript: bool = Field(default=True, description="What is said")
    include_frames: bool = Field(default=True, description="The slides, as pictures")
    include_slide_text: bool = Field(default=False, description="The text of each slide, by OCR")
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES, description=OCR_LANGUAGE)

    @property
    def is_watched(self) -> bool:
        return self.include_frames or self.include_slide_text or not self.include_transcript


@handles("video", VideoParameters, timeout=TIMEOUT)
async def video(ctx: JobContext[VideoParameters]) -> dict[str, Any]:
    check_translation(ctx)
    want: Want = "video" if ctx.parameters.is_watched else "audio"
    kinds = MOVING if ctx.parameters.is_watched else MOVING | SOUND
    document, origin = await find_recording(ctx, kinds, want)
    recording = await look_into(ctx, document)
    words, frames = None, None
    if ctx.parameters.include_transcript:
        words = await words_of(ctx, document, recording, origin, last_percent=HALF_PERCENT)
    if ctx.parameters.is_watched:
        frames = await _frames(ctx, document, recording)
    return await concluded(ctx, document, recording, origin, words, frames)


async def _frames(
    ctx: JobContext[VideoParameters], document: Document, recording: "Recording"
) -> Frames | None:
    wish = ctx.parameters
    if not recording.pictures:
        if not wish.include_transcript:
            raise UnsupportedFile("There are no pictures in the file")
        await ctx.log("There are no pictures in the file, only sound")
        return None
    looking = Looking(
        ctx=ctx,
        document=document,
        recording=recording,
        track=recording.pictures[0],
        first_percent=HALF_PERCENT if wish.include_transcript else 10,
        last_percent=90,
    )
    return await looking.run(with_text=wish.include_slide_text, languages=wish.ocr_language)
