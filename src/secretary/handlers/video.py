"""Job type `video`: transcribes a video and extracts its slides."""

from pydantic import Field

from ..core.errors import UnsupportedFile
from ..core.file_types import AUDIO_TYPES, VIDEO_TYPES
from ..jobs.handler import JobContext, handles
from .media_pipeline import (
    TIMEOUT,
    Media,
    RecordingParameters,
    assemble_results,
    get_transcript,
    resolve_media,
)
from .parameters import LANGUAGES, OCR_LANGUAGE, RecordingResults
from .slide_extraction import ExtractedSlides, SlideExtraction
from .translation import check_translation

#: Where transcription ends and slide extraction begins.
TRANSCRIBED_PERCENT = 65


class VideoParameters(RecordingParameters):
    include_transcript: bool = Field(default=True, description="Transcribe the speech")
    include_frames: bool = Field(default=True, description="Extract the slides as images")
    include_slide_text: bool = Field(default=False, description="Read the slides by OCR")
    ocr_language: str | None = Field(default=None, pattern=LANGUAGES, description=OCR_LANGUAGE)

    @property
    def needs_frames(self) -> bool:
        return self.include_frames or self.include_slide_text or not self.include_transcript


@handles("video", VideoParameters, timeout=TIMEOUT)
async def video(ctx: JobContext[VideoParameters]) -> RecordingResults:
    check_translation(ctx)
    if ctx.parameters.needs_frames:
        media = await resolve_media(ctx, VIDEO_TYPES, "video")
    else:
        media = await resolve_media(ctx, VIDEO_TYPES | AUDIO_TYPES, "audio")
    transcript = slides = None
    if ctx.parameters.include_transcript:
        transcript = await get_transcript(ctx, media, last_percent=TRANSCRIBED_PERCENT)
    if ctx.parameters.needs_frames:
        slides = await _extract_slides(ctx, media)
    return await assemble_results(ctx, media, transcript, slides)


async def _extract_slides(ctx: JobContext[VideoParameters], media: Media) -> ExtractedSlides | None:
    parameters, recording = ctx.parameters, media.recording
    if not recording.video_tracks:
        if not parameters.include_transcript:
            raise UnsupportedFile("The file has no video track")
        await ctx.log("The file has no video track, only sound")
        return None
    extraction = SlideExtraction(
        ctx=ctx,
        document=media.document,
        recording=recording,
        track=recording.video_tracks[0],
        first_percent=TRANSCRIBED_PERCENT if parameters.include_transcript else 10,
        last_percent=90,
    )
    return await extraction.run(
        with_text=parameters.include_slide_text, languages=parameters.ocr_language
    )
