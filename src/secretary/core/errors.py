"""All errors of the package as one tree. The codes of `JobFailed` reach clients in `job.error`."""

import errno
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

#: The system's codes for a full disk or an exhausted quota.
DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class SecretaryError(Exception):
    """Base of all errors this package raises deliberately."""


class JobFailed(SecretaryError):
    """The job fails. Code, message and details reach the client unchanged."""

    code: str = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    #: Delay before the first retry; it doubles with each further one.
    backoff: ClassVar[timedelta] = timedelta(seconds=5)
    #: Overrides the backoff, for example with an upstream's Retry-After.
    retry_after: timedelta | None = None

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors are pickled by sandbox processes; keyword details would be lost.
        return (partial(type(self), self.message, **self.details), (), self.__dict__)


class InvalidParameters(JobFailed):
    code = "VALIDATION_ERROR"


class InvalidTemplate(InvalidParameters):
    """The template is invalid; `details["faults"]` has line and message of each fault."""


class UnknownTemplate(InvalidParameters):
    """No template has this name."""


class UnknownJobType(JobFailed):
    code = "UNKNOWN_JOB_TYPE"


class DownloadFailed(JobFailed):
    code = "DOWNLOAD_FAILED"
    retryable = True


class DownloadRefused(DownloadFailed):
    """The source cannot be downloaded, and retrying would not help."""

    retryable = False


class AddressRefused(DownloadRefused):
    """The URL is not an HTTP URL, or points to an address that must not be reached."""


class UnexpectedContentType(DownloadRefused):
    """The server announces another kind of file than expected; nothing was downloaded."""


class UnsupportedFile(JobFailed):
    """This job type cannot read this kind of file."""

    code = "UNSUPPORTED_FILE"


class FileEncrypted(JobFailed):
    """The file is encrypted, and the password is missing or wrong."""

    code = "FILE_ENCRYPTED"


class FileCorrupt(JobFailed):
    """The file is too damaged to be read."""

    code = "FILE_CORRUPT"


class FileTooLarge(JobFailed):
    """The input or the result exceeds a size limit."""

    code = "FILE_TOO_LARGE"


class DiskFull(FileTooLarge):
    """The disk is full at the moment."""

    retryable = True
    backoff = timedelta(minutes=1)


class ProcessingTimeout(JobFailed):
    code = "PROCESSING_TIMEOUT"


class EngineUnavailable(JobFailed):
    """No engine is configured for this task."""

    code = "ENGINE_UNAVAILABLE"


class UpstreamFailed(JobFailed):
    """A service that the job depends on gave no usable response."""

    code = "UPSTREAM_FAILED"
    retryable = True
    backoff = timedelta(seconds=10)


class UpstreamRefused(UpstreamFailed):
    """The service rejected the request, and would reject it again."""

    retryable = False


class ContextExceeded(UpstreamRefused):
    """Prompt or answer exceed the context window of the language model: split the text."""


class AnswerCutOff(ContextExceeded):
    """The answer exceeds the maximum length; `partial` is its beginning."""

    def __init__(self, message: str, *, partial: str = "") -> None:
        super().__init__(message)
        self.partial = partial


class ProcessDied(JobFailed):
    """The work crashed its process. Retried once: a second crash is attributed to the job."""

    code = "WORKER_CRASHED"
    backoff = timedelta(seconds=1)


class WorkerCrashed(ProcessDied):
    """The process that ran the job was killed by a signal or exited."""


class OutOfMemory(ProcessDied):
    """The process that ran the job exceeded its memory limit."""

    code = "OUT_OF_MEMORY"


class StoreError(SecretaryError):
    """Base of the errors a job store raises."""


class NotFound(StoreError):
    """No job or batch has this id."""


class Conflict(StoreError):
    """The state of the job, batch or key does not allow this."""


class KeyReused(Conflict):
    """The idempotency key belongs to another request."""


class LeaseLost(StoreError):
    """The job was reassigned or finished since it was claimed."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened or written. The message may name files and servers, so
    clients receive `public_message`, and `reason` in the details."""

    public_message: ClassVar[str] = "The job store is unavailable"
    reason: ClassVar[str | None] = None


class NoDiskSpace(StoreUnavailable):
    """The disk of the store or of the data directory is full."""

    public_message = "The disk of the service is full"
    reason = "disk_full"


class StoreLocked(StoreUnavailable):
    """Another process holds the lock of the database and does not release it."""

    public_message = "Another process keeps the job store locked"
    reason = "store_locked"


class AccessDenied(SecretaryError):
    """The caller may read this, but not change it."""


class Unauthorized(AccessDenied):
    """The API key is missing or invalid."""


class RateLimited(SecretaryError):
    """Too many requests; retry after `retry_after` seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QuotaExceeded(RateLimited):
    """A quota of the user is used up; `details` has its name, limit, usage and when it resets."""

    def __init__(self, message: str, *, retry_after: int, details: dict[str, Any]) -> None:
        super().__init__(message, retry_after=retry_after)
        self.details = details


class InvalidSettings(SecretaryError):
    """A setting is unknown or has an invalid value; the message names it."""
