"""What a failed request means for the job, in a sentence without secrets."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ...errors import (
    ContextExceeded,
    EngineUnavailable,
    JobFailed,
    UpstreamFailed,
    UpstreamRefused,
)
from ...retry_after import read_retry_after
from .options import Model, Provider

if TYPE_CHECKING:
    from openai import APIError

LONGEST_SENTENCE = 300
#: So much of a key in a word makes that word a secret: endpoints like to show the half of it.
TELLING = 6

#: Asking again later may help; all others below 500 would be answered the same.
PASSING = frozenset({408, 409, 425, 429})
LONGEST_WAIT = timedelta(hours=1)

#: How servers say that a text is too long for the model.
OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window)|maximum context|prompt is too long|too many (input )?tokens"
    r"|token count .{0,20}exceeds|exceeds? the maximum number of tokens",
    re.IGNORECASE,
)


def failure(error: "APIError", model: Model) -> JobFailed:
    from openai import APIStatusError, APITimeoutError

    if isinstance(error, APIStatusError):
        return _by_status(error.status_code, error.body, error.response.headers, model.provider)
    if isinstance(error, APITimeoutError):
        return too_slow(model.provider)
    text = "The endpoint of the language model cannot be reached"
    return UpstreamFailed(f"{text}: see {model.provider.setting}.base_url")


def too_slow(provider: Provider) -> UpstreamFailed:
    return UpstreamFailed(
        f"The language model did not answer in {provider.timeout_seconds:g} s:"
        f" see {provider.setting}.timeout_sec"
    )


def _by_status(
    status: int, body: object, headers: Mapping[str, str], provider: Provider
) -> JobFailed:
    if status in (401, 403):  # its words are not repeated: they tend to be about the key
        text = f"The endpoint of the language model does not accept the API key ({status})"
        return EngineUnavailable(f"{text}: see {provider.setting}.api_key", status=status)
    told = sentence(body, provider)
    if status not in PASSING and _is_overflow(body):
        return ContextExceeded(f"The text is too long for the language model{told}", status=status)
    if status < 500 and (status not in PASSING or _is_out_of_money(body)):
        text = f"The endpoint of the language model refuses the request ({status}){told}"
        return UpstreamRefused(text, status=status)
    failed = UpstreamFailed(f"The language model gave no answer ({status}){told}", status=status)
    failed.retry_after = _retry_after(headers)
    return failed


def _is_overflow(body: object) -> bool:
    if not isinstance(body, Mapping):
        return False
    told = (str(body.get(key) or "") for key in ("code", "type", "message"))
    return any(OVERFLOW.search(each) for each in told)


def _is_out_of_money(body: object) -> bool:
    return isinstance(body, Mapping) and body.get("code") == "insufficient_quota"


def sentence(body: Any, provider: Provider) -> str:
    """`: ` and what the endpoint says about it, shortened and without secrets; "" when nothing."""
    said = body.get("message") if isinstance(body, Mapping) else body
    if not isinstance(said, str) or said.lstrip().startswith(("<", "{")):  # a page, a dump
        return ""
    text = " ".join(_masked(word, provider.api_key) for word in re.split(r"[\s\x00-\x1f]+", said))
    if len(text) > LONGEST_SENTENCE:
        text = text[:LONGEST_SENTENCE] + "…"
    return f": {text.strip()}" if text.strip() else ""


def _masked(word: str, secret: str | None) -> str:
    if not secret:
        return word
    parts = (secret[start : start + TELLING] for start in range(max(1, len(secret) - TELLING + 1)))
    return "***" if any(part in word for part in parts) else word


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """What the endpoint asks for, where the wait was too long to be made at once."""
    wait = read_retry_after(headers.get("retry-after"), datetime.now(UTC))
    if wait is None:
        return None
    return min(max(wait, timedelta(seconds=1)), LONGEST_WAIT)
