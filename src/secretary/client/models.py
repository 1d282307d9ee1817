"""Typed responses of the service; fields that are not declared here are kept."""

from datetime import datetime
from typing import Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)

Status = Literal["pending", "processing", "completed", "failed", "cancelled"]


class ServiceModel(BaseModel):
    """Base model; a newer service may send more fields than are declared here."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    @property
    def raw(self) -> dict[str, Any]:
        """The document as the service sent it."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class Progress(ServiceModel):
    step: str = ""
    percent: int = 0
    message: str = ""


class ErrorDocument(ServiceModel):
    code: str
    message: str
    details: Any = None


class LogEntry(ServiceModel):
    timestamp: datetime
    level: str
    message: str


class Segment(ServiceModel):
    start: float
    end: float
    text: str


class Transcription(ServiceModel):
    text: str = ""
    source_language: str | None = None
    segments: list[Segment] = []


class Subtitles(ServiceModel):
    srt: str | None = None
    vtt: str | None = None


class WarningDocument(ServiceModel):
    code: str
    message: str


class Results(ServiceModel):
    """The results of any job type; fields that do not apply are None or empty. Files are API
    paths, which `download` accepts."""

    markdown_file: str | None = None
    markdown_content: str | None = None
    extracted_text: str | None = None
    text: str | None = None
    metadata: dict[str, Any] | None = None
    transcription: Transcription | None = None
    subtitles: Subtitles | None = None
    structured_data: Any = None
    assets: list[str] = []
    page_texts: list[str] = []
    web_text: str | None = None
    video_transcript: str | None = None
    attachments_text: Any = None
    attachments_url: str | None = None
    archive_url: str | None = None
    archive_filename: str | None = None
    target_dir: str | None = None
    asset_dir: str | None = None
    context: Any = None
    #: What was not perfect.
    warnings: list[WarningDocument] = []

    _raw: dict[str, Any] = PrivateAttr(default_factory=dict)

    @property
    def raw(self) -> dict[str, Any]:
        return self._raw

    @model_validator(mode="wrap")
    @classmethod
    def _validate(cls, document: Any, validate: ModelWrapValidatorHandler["Results"]) -> "Results":
        """Custom handlers may use these names for other types; such fields are in `raw` only."""
        if not isinstance(document, dict):
            return validate(document)
        try:
            results = validate(document)
        except ValidationError as error:
            invalid = {problem["loc"][0] for problem in error.errors()}
            valid = {name: value for name, value in document.items() if name not in invalid}
            results = validate(valid)
        results._raw = document
        return results


class JobDocument(ServiceModel):
    job_id: str = Field(min_length=1)
    job_type: str = ""
    job_name: str | None = None
    status: Status = "pending"
    parameters: dict[str, Any] = {}
    progress: Progress = Progress()
    results: dict[str, Any] | None = None
    error: ErrorDocument | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    processing_started_at: datetime | None = None
    completed_at: datetime | None = None
    batch_id: str | None = None
    user_id: str | None = None
    logs: tuple[LogEntry, ...] = ()
    archived: bool = False
    priority: int = 0
    attempt: int = 0
    retention_days: float | None = None
    expires_at: datetime | None = None
    #: About the request; those of the run are in the results.
    warnings: tuple[WarningDocument, ...] = ()


class BatchDocument(ServiceModel):
    batch_id: str = Field(min_length=1)
    batch_name: str = ""
    status: Status = "pending"
    total_jobs: int = 0
    pending_jobs: int = 0
    processing_jobs: int = 0
    completed_jobs: int = 0
    failed_jobs: int = 0
    cancelled_jobs: int = 0
    is_active: bool = Field(default=True, alias="isActive")
    archived: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    completed_at: datetime | None = None
    user_id: str | None = None
    #: About the request.
    warnings: tuple[WarningDocument, ...] = ()

    @property
    def progress(self) -> Progress:
        finished = self.completed_jobs + self.failed_jobs + self.cancelled_jobs
        percent = 100 * finished // self.total_jobs if self.total_jobs else 100
        message = f"{finished} of {self.total_jobs} jobs have ended"
        return Progress(step=self.status, percent=percent, message=message)


class JobType(ServiceModel):
    job_type: str
    #: JSON Schema of the parameters.
    parameters: dict[str, Any]
    limits: dict[str, Any] = {}


class Health(ServiceModel):
    version: str
    uptime_s: float = 0
    stopping: bool = False
    workers: int = 0
    slots: int = 0
    io_slots: int = 0
    store: dict[str, Any] = {}
    jobs: dict[str, int] = {}


class Event(ServiceModel):
    """A change of a job or batch, from an event stream."""

    #: `pending`, `progress`, `completed`, `error` or `cancelled`.
    name: str
    #: Continue from here with `client.events(since=event.id)`.
    id: str | None
    job_id: str | None = None
    batch_id: str | None = None
    job_type: str | None = None
    phase: str = ""
    message: str = ""
    data: dict[str, Any] | None = None
    error: ErrorDocument | None = None

    @property
    def percent(self) -> int:
        """The progress; 100 if completed."""
        percent = (self.data or {}).get("progress")
        return percent if isinstance(percent, int) else 100 * (self.name == "completed")

    @property
    def progress(self) -> Progress:
        return Progress(step=self.phase, percent=self.percent, message=self.message)

    @property
    def is_final(self) -> bool:
        return self.name in ("completed", "error", "cancelled")

    @classmethod
    def parse(cls, name: str, event_id: str | None, document: dict[str, Any]) -> "Event":
        process = document.get("process") or {}
        return cls(
            name=name,
            id=event_id,
            job_id=(document.get("job") or {}).get("id"),
            batch_id=(document.get("batch") or {}).get("id"),
            job_type=process.get("main_processor"),
            phase=document.get("phase", ""),
            message=document.get("message") or "",
            data=document.get("data"),
            error=document.get("error"),
        )
