"""What operators may see of an installation: settings without secrets, and engines."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ..config import Settings


@dataclass(frozen=True, slots=True)
class Installation:
    """Settings and engines without secrets. `engines` detects them, which may take a while, and
    returns `subject`, `verdict`, `fact` and `remedy` of each."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    engines: Callable[[], list[dict[str, Any]]] = list


MASK = "•••"
#: Settings with such a name are secrets, including future ones.
SECRET = re.compile(r"key|token|secret|password|passwd|credential|_uri$|authorization", re.I)
#: Exceptions: settings with such a name that are not secret.
PLAIN = frozenset({"context_tokens"})
#: Only scheme, host and path of a URL are shown, not user, password and options. A URL with a stray
#: `@` does not match and is hidden as a whole.
URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^/?#@]*@)?(?P<location>[^?#@]*)(?P<options>[?#][^@]*)?",
    re.I,
)
#: Shorter secrets are not searched for in texts: they would match too many words.
MIN_SECRET_LENGTH = 4
#: Values of parameters and options from this length on may be secrets; `auto` and `admin` are not.
LIKELY_SECRET_LENGTH = 12


def visible_settings(settings: Settings) -> dict[str, Any]:
    """The settings by group and name, with secrets masked."""
    visible: dict[str, Any] = redact(_visible_group(settings), settings)
    return visible


def redact(value: Any, settings: Settings) -> Any:
    """Remove all secrets of the settings from a value, wherever they occur in its texts."""
    secrets = sorted(set(_secrets(settings.model_dump(mode="json"))), key=len, reverse=True)
    return _without([secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH], value)


def _visible_group(group: BaseModel) -> dict[str, Any]:
    return {name: _visible(name, getattr(group, name)) for name in type(group).model_fields}


def _visible(name: str, value: Any) -> Any:
    match value:
        case BaseModel():
            return _visible_group(value)
        case None | bool() | int() | float():
            return value
        case _ if name.endswith("_parameters"):  # sent to an endpoint; they may contain anything
            return {key: _number_or_mask(one) for key, one in value.items()}
        case _ if _is_secret(name):
            return _masked(value)
        case dict():
            return {key: _visible(name, one) for key, one in value.items()}
        case tuple() | list():
            return [_visible(name, one) for one in value]
    return _location(str(value)) if "://" in str(value) else str(value)


def _is_secret(name: str) -> bool:
    return name not in PLAIN and SECRET.search(name) is not None


def _number_or_mask(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else MASK


def _masked(value: Any) -> Any:
    if isinstance(value, tuple | list):  # API keys: show the users
        users = (str(one).partition(":")[2] for one in value)
        return [f"{MASK} ({user})" if user else MASK for user in users]
    return _location(str(value))


def _location(text: str) -> str:
    address = URL.fullmatch(text)
    return f"{address['scheme']}://{address['location']}" if address else MASK


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    """Every secret text in the settings."""
    match value:
        case dict():
            inside = name if name.endswith("_parameters") else ""
            for key, one in value.items():
                yield from _secrets(one, inside or str(key))
        case list():
            for one in value:
                yield from _secrets(one, name)
        case str() if name.endswith("_parameters"):
            if len(value) >= LIKELY_SECRET_LENGTH:
                yield value
        case str() if "://" in value:
            address = URL.fullmatch(value)
            if address and address["user"]:
                yield from filter(None, address["user"].rstrip("@").split(":", 1))
            if address and address["options"]:
                values = re.findall(r"=([^&#]+)", address["options"])
                yield from (value for value in values if len(value) >= LIKELY_SECRET_LENGTH)
        case str() if _is_secret(name):
            yield value.partition(":")[0]


def _without(secrets: list[str], value: Any) -> Any:
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, MASK)
            return value
        case dict():
            return {key: _without(secrets, one) for key, one in value.items()}
        case list():
            return [_without(secrets, one) for one in value]
    return value
