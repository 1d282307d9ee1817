"""Job type `video`: what is said and shown in a video."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from ..core.errors import UnsupportedFile
from ..core.file_types import AUDIO_TYPES, VIDEO_TYPES
from ..jobs.handler import JobContext, handles
from .audio import TIMEOUT
from .document_pipeline import Document
from .media_pipeline import RecordingParameters, concluded, find_recording, words_of
from .parameters import LANGUAGES, OCR_LANGUAGE
from .slide_extraction import Frames, SlideExtraction
from .transcription import look_into
from .translation import check_translation

if TYPE_CHECKING:
    from ..media.recording import Recording
    from ..media.ytdlp.media import Want

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
    kinds = VIDEO_TYPES if ctx.parameters.is_watched else VIDEO_TYPES | AUDIO_TYPES
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
    looking = SlideExtraction(
        ctx=ctx,
        document=document,
        recording=recording,
        track=recording.pictures[0],
        first_percent=HALF_PERCENT if wish.include_transcript else 10,
        last_percent=90,
    )
    return await looking.run(with_text=wish.include_slide_text, languages=wish.ocr_language)
