"""Which parameters of a job are secrets, and what is shown and kept of them."""

import re
from collections.abc import Callable, Mapping
from typing import Any

#: Stands in every answer for a secret that was given.
HIDDEN = "•••"

#: How the names of secrets end, whatever the job type: handlers from outside have theirs, and
#: clients send what nobody asked for.
SECRET = re.compile(
    r"(password|passwd|passphrase|secret|token|api_?key|authorization|credentials?)$", re.I
)


def has_secrets(parameters: Mapping[str, Any]) -> bool:
    return any(
        _is_secret(name, value)
        for place in (parameters, parameters.get("extra"))
        if isinstance(place, Mapping)
        for name, value in place.items()
    )


def masked(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """As they are shown: who may read a job is not thereby trusted with its secrets."""
    return _treated(parameters, lambda secrets: dict.fromkeys(secrets, HIDDEN))


def without_secrets(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """As they are kept once the job has done its work, which is what they were for."""
    return _treated(parameters, lambda secrets: {})


def without_hidden(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Without what a client has read and sends back: it does not know the secret."""
    return {name: value for name, value in parameters.items() if value != HIDDEN}


def _treated(
    parameters: Mapping[str, Any], treat: Callable[[list[str]], dict[str, Any]]
) -> dict[str, Any]:
    """Also those under `extra`, where what nobody declared is kept."""
    secrets = [name for name, value in parameters.items() if _is_secret(name, value)]
    told = {name: value for name, value in parameters.items() if name not in set(secrets)}
    if isinstance(extra := told.get("extra"), Mapping):
        told["extra"] = _treated(extra, treat)
    return told | treat(secrets)


def _is_secret(name: str, value: Any) -> bool:
    return value is not None and not isinstance(value, bool) and SECRET.search(name) is not None
