"""The fields of forms, as all routes that take a form understand them."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.alias_generators import to_snake

from ..errors import InvalidParameters

#: No field is called longer; to find the words in a name takes time by the square of its length.
LONGEST_NAME = 100
#: A form has only texts: these are JSON in it.
JSON_IN_FORMS = ("webhook", "access_control")


class Fields:
    """Those that say something. They are taken by their names in snake case; `rest` are those that
    nobody took, as the client spelled them."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.rest = {name: value for name, value in given.items() if value not in ("", None)}
        self._spelled = {to_snake(name): name for name in self.rest if len(name) <= LONGEST_NAME}

    def __contains__(self, name: str) -> bool:
        return name in self._spelled

    def take(self, names: Iterable[str]) -> dict[str, Any]:
        found = [name for name in names if name in self._spelled]
        taken = {name: self.rest.pop(self._spelled.pop(name)) for name in found}
        read = {name: from_json(name, taken[name]) for name in JSON_IN_FORMS if name in taken}
        return taken | read


def from_json(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        raise InvalidParameters(f"{name}: it must be JSON") from None


def callback(taken: Mapping[str, Any]) -> dict[str, Any]:
    """The webhook that `callback_url` and its companions name."""
    return {
        "url": taken["callback_url"],
        "token": taken.get("callback_token"),
        "jobId": taken.get("job_id"),
    }
