"""The documents the API returns: the success envelope, jobs, batches and results.

FastAPI derives the OpenAPI document from these models. Routes send plain JSON that matches them
instead of building instances: a job is serialised once, and results may be tens of megabytes.
"""

from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from pydantic.json_schema import SkipJsonSchema

from ..core.job import (
    Attempt,
    Delivery,
    JobError,
    JobStatus,
    JobWarning,
    LogEntry,
    Progress,
    UtcTime,
)

T = TypeVar("T")

JsonObject = dict[str, JsonValue]
#: Omitted rather than null when it does not apply.
Omitted = SkipJsonSchema[None]
RequestWarnings = Annotated[
    list[JobWarning] | Omitted, Field(description="Fields that were not understood, if any")
]


def _tidy_schema(schema: dict[str, Any]) -> None:
    """Drop titles, which repeat the names, and null defaults, which mean that it is omitted."""
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
        if field.get("default", ...) is None:
            del field["default"]


class ResponseModel(BaseModel):
    """Base of the documents: a field with a default may be missing from the response."""

    model_config = ConfigDict(json_schema_extra=_tidy_schema)


class RequestInfo(ResponseModel):
    processor: str
    timestamp: UtcTime
    parameters: JsonObject


class LlmRequestInfo(ResponseModel):
    """One call to a language model."""

    model: str
    purpose: str
    input_tokens: int
    output_tokens: int
    tokens: int | Omitted = Field(None, description="Input and output together")
    duration_ms: float
    sound_seconds: float | Omitted = None
    cost: float | Omitted = None


class LlmInfo(ResponseModel):
    requests: list[LlmRequestInfo]
    total_tokens: int | Omitted = None
    total_cost: float | Omitted = Field(None, description="Only where prices are known")


class ProcessInfo(ResponseModel):
    id: str
    main_processor: str
    started: UtcTime | Omitted = None
    duration_ms: float | Omitted = None
    is_from_cache: bool | Omitted = None
    llm_info: LlmInfo | Omitted = None


class Envelope(ResponseModel, Generic[T]):
    """The form of every successful response."""

    status: Literal["success"]
    request: RequestInfo
    process: ProcessInfo
    data: T
    error: None

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        return f"{params[0].__name__}Response"


class Document(ResponseModel):
    """Results and their parts; handlers may add fields of their own."""

    model_config = ConfigDict(extra="allow")


class PageText(Document):
    """The text of one page."""

    page: int
    content: str | None = Field(description="Null if the results are too long to be inlined")
    method: str | Omitted = Field(None, description="How the page was read")
    reason: str | Omitted = Field(None, description="Why `auto` chose OCR")
    texts: dict[str, str] | Omitted = Field(None, description="By method, if there are several")
    ocr_language: str | Omitted = None
    ocr_confidence: float | Omitted = Field(None, description="0 to 100")


class Chapter(Document):
    start: float
    end: float | None = None
    title: str | None = None


class Metadata(Document):
    """What is known about the source; the fields depend on the job type."""

    file_name: str | None = None
    file_size: int | None = None
    title: str | None = None
    author: str | None = None
    page_count: int | None = None
    extraction_method: str | None = None
    text_contents: list[PageText] | None = Field(None, description="Documents: one per page")
    format: str | None = None
    duration: float | None = Field(None, description="Recordings: in seconds")
    channels: int | None = None
    sample_rate: int | None = Field(None, description="In Hz")
    bit_rate: int | None = Field(None, description="In bits per second")
    engine: str | None = Field(None, description="Recordings: the transcription engine")
    language: str | None = None
    source_language: str | None = None
    target_language: str | None = None
    target_format: str | None = None
    template: str | None = None
    front_matter: JsonObject | None = None
    warnings: list[str] | None = None


class Segment(Document):
    start: float = Field(description="In seconds")
    end: float
    text: str


class Transcription(Document):
    text: str
    source_language: str | None = None
    target_language: str | None = Field(None, description="If the transcript was translated")
    segments: list[Segment] = []


class SubtitleFiles(Document):
    """URLs of the subtitle files."""

    srt: str
    vtt: str


class Frame(Document):
    """A slide or other still image in a video."""

    time: float = Field(description="In seconds")
    end: float
    file: str
    url: str
    text: str | None = None


class Recording(Document):
    """The recording, if it was kept with the results."""

    url: str | None
    media_type: str | None
    file_size: int
    not_kept: str | None = Field(
        description="Why it was not kept: `too_large`, `off`, `not_playable` or `no_room`"
    )


class SlideInfo(Document):
    """A slide of a talk."""

    page_num: int
    title: str
    summary: str
    image_url: str = Field(description="Path of its image in the archive")
    time: float | None = Field(None, description="When the video shows it first, in seconds")


class MissingPart(Document):
    """A part of a talk that could not be retrieved."""

    part: str
    url: str | None = None
    error: JsonValue = None


class MistralOcrMetadata(Document):
    """What `mistral_ocr_raw_url` says about the document as a whole."""

    model: str
    pages_count: int
    usage_info: JsonObject


class Chunk(Document):
    """A part of a text, with its embedding."""

    chunk_index: int
    text: str
    embedding: list[float]
    heading_context: str | None = Field(description="The headings above it")
    start_char: int = Field(description="In Unicode code points, from 0")
    end_char: int
    document_id: str | None
    metadata: JsonObject


class Image(Document):
    """A generated image."""

    url: str
    image_format: str
    size: str
    seed: int | None = Field(description="Null if the model accepts no seeds")
    image_base64: str | None = Field(None, description="In synchronous responses only")


class Results(Document):
    """The results of a job. All job types share one shape; fields after `context` are present
    only where they apply. Every file is given as a URL of this API."""

    markdown_file: str | None
    markdown_content: str | None
    assets: list[str]
    web_text: str | None
    video_transcript: str | None
    attachments_text: str | None
    attachments_url: str | None
    archive_url: str | None = Field(description="A ZIP of all files")
    archive_filename: str | None
    structured_data: JsonObject | None = Field(description="What a model filled in, by field")
    target_dir: str | None = Field(description="Relative to the data directory")
    page_texts: list[str] = Field(description="One URL per page")
    asset_dir: str | None
    context: JsonObject | None

    metadata: Metadata | None = None
    warnings: list[JobWarning] | None = Field(None, description="What was not perfect")
    is_from_cache: bool | None = None
    llm_info: LlmInfo | None = None
    processId: str | None = Field(None, description="The id of the job")
    # pdf, office, imageocr
    extracted_text: str | None = None
    extracted_text_file: str | None = None
    page_markdown_file: str | None = None
    pages_archive_url: str | None = None
    images_archive_url: str | None = None
    previews_archive_url: str | None = None
    mistral_ocr_raw_url: str | Omitted = Field(None, description="With `mistral_ocr`: JSON")
    mistral_ocr_raw_metadata: MistralOcrMetadata | Omitted = None
    mistral_ocr_images_url: str | Omitted = Field(None, description="A ZIP of the pictures")
    # audio, video
    transcription: Transcription | None = None
    transcript_file: str | None = None
    subtitles: SubtitleFiles | None = None
    original_subtitles: SubtitleFiles | None = None
    frames: list[Frame] | None = None
    recording: Recording | None = None
    output_text: str | None = Field(
        None, description="What the template made of the transcript, in the response to a request"
    )
    chapters: list[Chapter] | None = None
    # session
    slides: list[SlideInfo] | None = None
    missing: list[MissingPart] | None = None
    # transformer, chat, imageanalyzer
    text: str | None = None
    text_file: str | None = None
    # embedding
    document_id: str | None = None
    chunks: list[Chunk] | None = None
    total_chunks: int | None = None
    embedding_model: str | None = None
    embedding_dimensions: int | None = None
    created_at: UtcTime | None = None
    # text2image
    prompt: str | None = None
    model: str | None = None
    images: list[Image] | None = None
    image_base64: str | None = Field(None, description="The first image, in synchronous responses")
    image_format: str | None = None
    size: str | None = None
    seed: int | None = None


class Talk(Results):
    markdown_file: str | None = Field(
        description="Its path, which in the archive is without `sessions/`"
    )
    archive_data: str | None = Field(None, description="The archive as base64, if it was requested")


class TalkOutput(ResponseModel):
    """The results of a talk, as clients that wait for them read them."""

    output: Talk


class AccessControlInfo(ResponseModel):
    visibility: Literal["private", "public"]
    read_access: list[str]
    write_access: list[str]
    admin_access: list[str]


class WebhookInfo(ResponseModel):
    """A webhook without its secrets."""

    model_config = ConfigDict(extra="forbid")

    url: str
    token: None
    jobId: str | None
    headers: dict[str, None] = Field(description="Names without values")
    secret: None
    include_markdown: bool
    include_metadata: bool
    include_archive: bool
    token_in_body: bool
    events: list[str] | None


class JobSummary(ResponseModel):
    """A job as lists show it: without results and logs unless `include` asks for them."""

    job_id: str
    job_type: str
    job_name: str | None
    status: JobStatus
    parameters: JsonObject = Field(description="As sent; undeclared ones are under `extra`")
    progress: Progress
    error: JobError | None
    created_at: UtcTime
    updated_at: UtcTime
    processing_started_at: UtcTime | None
    completed_at: UtcTime | None
    batch_id: str | None
    user_id: str | None
    access_control: AccessControlInfo
    archived: bool
    priority: int
    run_at: UtcTime | None
    timeout_s: float | None
    attempt: int
    max_attempts: int | None
    attempts: list[Attempt]
    worker_id: str | None
    cancel_requested: bool
    webhook: WebhookInfo | None
    deliveries: list[Delivery]
    resources: dict[str, float] = Field(description="What the job used, such as CPU seconds")
    retention_days: float | None = Field(description="Its own retention; 0 keeps it forever")
    expires_at: UtcTime | None = Field(
        description="When it is deleted, once it has finished, if it has its own retention"
    )
    stored_bytes: int | None = Field(description="Size of its files, if there are quotas")
    traceparent: str | None = Field(description="W3C trace context of the submission")
    results: Results | None = None
    logs: list[LogEntry] | Omitted = None


class Job(JobSummary):
    """A job with its results and logs."""

    results: Results | None
    logs: list[LogEntry]


class Batch(ResponseModel):
    batch_id: str
    batch_name: str
    status: JobStatus
    total_jobs: int
    pending_jobs: int
    processing_jobs: int
    completed_jobs: int
    failed_jobs: int
    cancelled_jobs: int
    isActive: bool = Field(description="False: pending jobs do not start")
    archived: bool
    created_at: UtcTime
    updated_at: UtcTime
    completed_at: UtcTime | None
    user_id: str | None
    access_control: AccessControlInfo
    retention_days: float | None = Field(description="Default of its jobs; 0 keeps them forever")
    webhook: WebhookInfo | None
    deliveries: list[Delivery]
    jobs: list[JobSummary] | Omitted = Field(None, description="Only with `include=jobs`")
    job_ids: list[str] | Omitted = Field(None, description="The jobs this request changed")


class DeliveryList(ResponseModel):
    deliveries: list[Delivery]


class EnqueuedJob(ResponseModel):
    job_id: str
    job_ids: list[str]
    batch_id: str | None
    job: Job
    warnings: RequestWarnings = None


class EnqueuedBatch(ResponseModel):
    batch_id: str
    job_ids: list[str]
    batch: Batch
    warnings: RequestWarnings = None
