"""
Everything that can go wrong, as one tree:

* SecretaryError
  x JobFailed              the job cannot be done; becomes `job.error`
    + InvalidParameters    VALIDATION_ERROR
      - InvalidTemplate    a template that cannot be used; `faults` names the lines
      - UnknownTemplate    a name that no template has
    + UnknownJobType       UNKNOWN_JOB_TYPE
    + DownloadFailed       DOWNLOAD_FAILED      (retryable)
      - DownloadRefused    the same answer would come again: not retryable
        . AddressRefused   a URL that leads where we do not go; of a webhook too
        . KindRefused      a file of a kind that was not asked for, such as a page
    + UnsupportedFile      UNSUPPORTED_FILE
    + FileEncrypted        FILE_ENCRYPTED
    + FileCorrupt          FILE_CORRUPT
    + FileTooLarge         FILE_TOO_LARGE
      - NoRoom             the disk is full; others may make room: retryable
    + ProcessingTimeout    PROCESSING_TIMEOUT
    + EngineUnavailable    ENGINE_UNAVAILABLE
    + UpstreamFailed       UPSTREAM_FAILED      (retryable)
      - UpstreamRefused    the same answer would come again: not retryable
        . ContextExceeded  more text than the language model can hold at once
    + ProcessDied          the work took its process down; counted apart from failures
      - WorkerCrashed      WORKER_CRASHED
      - OutOfMemory        OUT_OF_MEMORY
  x StoreError
    + NotFound
    + Conflict             the thing is in a state that forbids this
      - KeyReused          an idempotency key that came with another request before
    + LeaseLost            another worker owns the job now: write nothing more
    + StoreUnavailable     the store does not answer, or cannot be written
  x AccessDenied           the caller may not do this
    + Unauthorized         the caller has not shown a valid API key
  x RateLimited            the caller asks too often
  x InvalidSettings        a setting is missing, unknown or wrong
"""

import errno
from datetime import timedelta
from typing import Any, ClassVar

#: What the system says when a disk, or someone's share of it, is full.
DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})


class SecretaryError(Exception):
    """Base of every error this package raises on purpose."""


class JobFailed(SecretaryError):
    """The job cannot be done. `code`, the message and the details reach the client unchanged."""

    code: str = "INTERNAL_ERROR"
    retryable: ClassVar[bool] = False

    #: The wait before the second try; it doubles with each further one.
    backoff: ClassVar[timedelta] = timedelta(seconds=5)
    #: When the cause knows better (an upstream's Retry-After).
    retry_after: timedelta | None = None

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel from a child process to the worker; keyword details would be lost.
        return (_rebuilt, (type(self), self.message, self.details), self.__dict__)


def _rebuilt(kind: type[JobFailed], message: str, details: dict[str, Any]) -> JobFailed:
    return kind(message, **details)


class InvalidParameters(JobFailed):
    """The parameters do not fit the job type."""

    code = "VALIDATION_ERROR"


class InvalidTemplate(InvalidParameters):
    """The template has faults; `details["faults"]` names line and fault of each."""


class UnknownTemplate(InvalidParameters):
    """There is no template of this name."""


class UnknownJobType(JobFailed):
    """No handler is registered for this job type."""

    code = "UNKNOWN_JOB_TYPE"


class DownloadFailed(JobFailed):
    """The source could not be fetched."""

    code = "DOWNLOAD_FAILED"
    retryable = True


class DownloadRefused(DownloadFailed):
    """The source is not to be had, and asking again would not change that."""

    retryable = False


class AddressRefused(DownloadRefused):
    """The URL is not one of the web, or leads to an address that may not be reached from here."""


class UnexpectedContentType(DownloadRefused):
    """What is there is announced as something else than was wanted; it was not fetched."""


class UnsupportedFile(JobFailed):
    """The file is not of a kind this job type can read."""

    code = "UNSUPPORTED_FILE"


class FileEncrypted(JobFailed):
    """The file needs a password that was not given, or is wrong."""

    code = "FILE_ENCRYPTED"


class FileCorrupt(JobFailed):
    """The file is damaged beyond what can be read."""

    code = "FILE_CORRUPT"


class FileTooLarge(JobFailed):
    """The input or the result is larger than the limits allow."""

    code = "FILE_TOO_LARGE"


class DiskFull(FileTooLarge):
    """There is no room on the disk at the moment."""

    retryable = True
    backoff = timedelta(minutes=1)


class ProcessingTimeout(JobFailed):
    """The job ran past its time limit."""

    code = "PROCESSING_TIMEOUT"


class EngineUnavailable(JobFailed):
    """No engine is configured for what was asked."""

    code = "ENGINE_UNAVAILABLE"


class UpstreamFailed(JobFailed):
    """A service the job depends on gave no usable answer."""

    code = "UPSTREAM_FAILED"
    retryable = True
    backoff = timedelta(seconds=10)


class UpstreamRefused(UpstreamFailed):
    """The service answered, and would answer the same again."""

    retryable = False


class ContextExceeded(UpstreamRefused):
    """The question, or the answer to it, is longer than the language model can hold: ask for
    less at once."""


class ProcessDied(JobFailed):
    """The work took its process down. Tried again once: the second death is the job's fault."""

    code = "WORKER_CRASHED"
    backoff = timedelta(seconds=1)


class WorkerCrashed(ProcessDied):
    """The process that ran the job died of a signal or left on its own."""


class OutOfMemory(ProcessDied):
    """The process that ran the job used more memory than it may."""

    code = "OUT_OF_MEMORY"


class StoreError(SecretaryError):
    """Base of the errors a job store raises."""


class NotFound(StoreError):
    """No job or batch has this id."""


class Conflict(StoreError):
    """What was asked does not fit the state the job, batch or key is in."""


class KeyReused(Conflict):
    """The idempotency key belongs to another request."""


class LeaseLost(StoreError):
    """The job was given to another worker, or ended, since it was claimed."""


class StoreUnavailable(StoreError):
    """The store cannot be reached, opened or written."""


class AccessDenied(SecretaryError):
    """The caller may see this, but not do that with it."""


class Unauthorized(AccessDenied):
    """No API key was sent, or one that is not valid."""


class RateLimited(SecretaryError):
    """The caller asked too often and may come back after so many seconds."""

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class InvalidSettings(SecretaryError):
    """A setting is unknown or has a value that cannot be used; the message names it."""
