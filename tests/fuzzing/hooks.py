"""Schemathesis hooks that adjust each request before it is sent."""

import re
from typing import Any

import schemathesis

#: A response may wait for its job, and then be a 5xx because there is no engine. That is correct,
#: and not what we look for; tests/acceptance/test_schema.py waits.
WAITING = frozenset({"sync", "async", "waitms"})
INGRESS = re.compile("/api/(audio|video|imageocr|transformer|session)/")
#: With a filter that all jobs fit it would take them away from the other requests; that it does
#: what it says, test_schema.py looks at.
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
