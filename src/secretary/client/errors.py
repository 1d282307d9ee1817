"""What can go wrong for a user of the client: one tree.

ClientError
├── ApiError            the service refused: status, code, message, details
│   └── NotFound        there is no such job, batch or file, or it is private to someone else
├── Unreachable         no answer, however often it was asked
├── JobFailed           the job ended without a result: code, message, details
│   └── JobCancelled    because someone cancelled it
├── WaitTimeout         the job or batch has not ended in time; also a TimeoutError
└── WebhookRefused      this is no event of the service, or an old one; also a ValueError
"""

from typing import Any


class ClientError(Exception):
    """All errors of the client."""


class ApiError(ClientError):
    """The service, or what answers in its place, did not do what was asked."""

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
    """No answer, however often the request was sent."""

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
