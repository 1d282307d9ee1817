"""Schemathesis hooks that adjust each request before it is sent."""

import re
from typing import Any

import schemathesis

#: A response may wait for its job and then report with a 5xx that there is no engine. Both
#: are correct, but not what we look for; tests/acceptance/test_schema.py covers waiting.
WAITING = frozenset({"sync", "async", "waitms"})
INGRESS = re.compile(
    "/api/(audio|video|imageocr|image-analyzer|transformer|rag|text2image|session)/"
)
#: With a filter that matches all jobs it would take them away from other requests; test_schema.py
#: checks that it works.
FOR_ALL = "/api/jobs/bulk"


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]
) -> None:
    if isinstance(case.body, dict):
        case.body = _at_once(case.body)
        if case.path == FOR_ALL:
            case.body["dry_run"] = True
    if isinstance(case.query, dict):
        case.query = _at_once(case.query)
    for name in [name for name in case.headers or () if name.lower() == "prefer"]:
        del case.headers[name]
    if INGRESS.match(case.path):
        case.query = {**(case.query or {}), "async": "true"}


def _at_once(fields: dict[Any, Any]) -> dict[Any, Any]:
    return {
        name: value
        for name, value in fields.items()
        if str(name).replace("_", "").lower() not in WAITING
    }
