"""The errors of the client, as one tree.

ClientError
├── ApiError            the service returned an error: status, code, message, details
│   └── NotFound        no such job, batch or file, or it belongs to another user
├── Unreachable         no response after all retries
├── JobFailed           the job finished without a result: code, message, details
│   └── JobCancelled    the job was cancelled
├── WaitTimeout         the job or batch has not finished in time; also a TimeoutError
└── WebhookRefused      not a valid event of the service, or too old; also a ValueError
"""

from typing import Any


class ClientError(Exception):
    """Base class of the client's errors."""


class ApiError(ClientError):
    """The service, or a proxy in front of it, returned an error."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Any = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.details = details
        self.retry_after = retry_after


class NotFound(ApiError):
    pass


class Unreachable(ClientError):
    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"The service at {url} does not answer: {reason}")
        self.reason = reason


class JobFailed(ClientError):
    def __init__(self, job_id: str, code: str, message: str, details: Any = None) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.code = code
        self.message = message
        self.details = details


class JobCancelled(JobFailed):
    pass


class WaitTimeout(ClientError, TimeoutError):
    pass


class WebhookRefused(ClientError, ValueError):
    pass
