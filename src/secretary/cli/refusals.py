"""What a service refuses, or that it does not answer, as the errors that all commands know."""

from collections.abc import Iterator
from contextlib import contextmanager

from ..client.errors import ApiError, Unreachable
from ..errors import (
    AccessDenied,
    Conflict,
    InvalidParameters,
    JobFailed,
    NotFound,
    RateLimited,
    SecretaryError,
    StoreUnavailable,
    Unauthorized,
)

KEY_HELP = "Give its key in SECRETARY_API_KEY, or from a file: --api-key @FILE"


@contextmanager
def refusals(url: str) -> Iterator[None]:
    try:
        yield
    except Unreachable as error:
        reason = str(error).rpartition("does not answer: ")[2]
        raise StoreUnavailable(
            f"Nothing answers at {url} ({reason}). Does the service run there?"
            " It is started with: secretary serve"
        ) from error
    except ApiError as error:
        raise error_of(error, url) from error


def error_of(error: ApiError, url: str) -> SecretaryError:
    if error.code == "NO_JSON" or error.code.startswith("HTTP_"):
        return StoreUnavailable(f"What answers at {url} is not Secretary: {error.message}")
    match error.status:
        case 400:
            return InvalidParameters(error.message)
        case 401:
            return Unauthorized(f"The service at {url} wants another API key. {KEY_HELP}")
        case 403:
            return AccessDenied(f"The service at {url} does not allow this: {error.message}")
        case 404:
            return NotFound(error.message)
        case 409:
            return Conflict(error.message)
        case 429:
            return RateLimited(error.message, retry_after=int(error.retry_after or 0))
        case status if status >= 500:
            return StoreUnavailable(f"The service at {url} cannot do this now: {error.message}")
    refused = JobFailed(error.message)
    refused.code = error.code
    return refused
