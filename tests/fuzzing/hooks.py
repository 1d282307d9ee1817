"""What Schemathesis is told about each request before it is sent."""

from typing import Any

import schemathesis

#: An answer may wait a minute for the end of a job, and then tell with a 5xx that there is no
#: engine. Both is right, and neither is what we look for; tests/acceptance/test_schema.py waits.
WAITING = frozenset({"sync", "waitms"})


@schemathesis.hook
def before_call(
    context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]
) -> None:
    if isinstance(case.body, dict):
        case.body = _at_once(case.body)
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
