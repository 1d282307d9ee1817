"""The trace context that a request brings along, given to the jobs it adds."""

from typing import TypeVar

from fastapi import Request

from .. import submission
from ..trace import read_traceparent

R = TypeVar("R", bound=submission.Request)


def traced(request: Request, asked: R) -> R:
    """What is asked for, as a part of the request's trace unless it names another itself."""
    traceparent: str | None = request.scope["state"].get("traceparent")
    traceparent = traceparent or read_traceparent(request.headers.get("traceparent"))
    if traceparent is None or asked.traceparent is not None:
        return asked
    return asked.model_copy(update={"traceparent": traceparent})
