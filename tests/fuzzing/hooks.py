"""Schemathesis hooks that adjust each request before it is sent."""

from typing import Any

import schemathesis

#: A response may wait a minute for a job and then report with a 5xx that there is no engine. Both
#: are correct, but not what we look for; tests/acceptance/test_schema.py covers waiting.
WAITING = frozenset({"sync", "waitms"})
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


def _at_once(fields: dict[Any, Any]) -> dict[Any, Any]:
    return {
        name: value
        for name, value in fields.items()
        if str(name).replace("_", "").lower() not in WAITING
    }
