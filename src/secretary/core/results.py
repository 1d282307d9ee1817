"""The results of each built-in job type, as they are stored and sent to clients."""

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer


class Results(BaseModel):
    """Fields that every job type with a document as its result has in common."""

    markdown_file: str | None
    markdown_content: str | None = None
    archive_url: str | None
    archive_filename: str | None
    context: dict[str, Any] | None
    metadata: dict[str, Any]
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
    pages_archive_url: str | None
    images_archive_url: str | None
    previews_archive_url: str | None


class SubtitleFiles(BaseModel):
    srt: str
    vtt: str


class Frame(BaseModel):
    """A slide of a video, shown from `time` to `end` (in seconds)."""

    time: float
    end: float
    file: str
    url: str
    #: Left out of the JSON where the text was not requested.
    text: str | None = None

    @model_serializer(mode="wrap")
    def _without_none(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in serialize(self).items() if value is not None}


class KeptRecording(BaseModel):
    """Where to play the recording, or why it was not kept with the results."""

    url: str | None
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


class TransformerResults(Results):
    text: str | None = None
    text_file: str
    structured_data: dict[str, Any] | None = None
    is_from_cache: bool


class PartError(BaseModel):
    code: str
    message: str


class MissingPart(BaseModel):
    """A part of a talk that could not be processed."""

    part: str
    url: str | None
    error: PartError


class SessionResults(Results):
    web_text: str | None = None
    video_transcript: str | None = None
    attachments_text: str | None = None
    structured_data: dict[str, Any] | None = None
    attachments_url: str | None
    assets: list[str]
    asset_dir: str
    target_dir: str
    missing: list[MissingPart]


def file_url(job_id: str, name: object, *, route: str = "/api/files") -> str:
    return f"{route}/{job_id}/{quote(str(name))}"


def archive_url(job_id: str) -> str:
    return f"/api/jobs/{job_id}/download-archive"
