"""What an operator may see of an installation."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from ..config import Settings


@dataclass(frozen=True, slots=True)
class Installation:
    """`engines` looks for them, which may take a while; it tells `subject`, `verdict`, `fact` and
    `remedy` of each. Neither holds a secret."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    engines: Callable[[], list[dict[str, Any]]] = list


MASK = "•••"
#: A setting that is called like one of these holds a secret, also one that comes later.
SECRET = re.compile(r"key|token|secret|password|passwd|credential|_uri$|authorization", re.I)
#: Settings that are called like secrets and are none.
PLAIN = frozenset({"context_tokens"})
#: Of an address only where it leads: users, passwords and options stay hidden. One with an `@`
#: in a place where none should be is not understood, and shown not at all.
ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^/?#@]*@)?(?P<place>[^?#@]*)(?P<options>[?#][^@]*)?",
    re.I,
)
#: Shorter ones would be found in half of all words.
SHORTEST = 4
#: Of parameters and options nobody says which is a secret: `auto` and `admin` are none.
LIKELY = 12


def visible_settings(settings: Settings) -> dict[str, Any]:
    """By group and name. What stands for a secret tells only that there is one."""
    told: dict[str, Any] = redact(_shown(settings), settings)
    return told


def redact(value: Any, settings: Settings) -> Any:
    """Without any secret of the settings, wherever it may have got into a text."""
    secrets = sorted(set(_secrets(settings.model_dump(mode="json"))), key=len, reverse=True)
    return _without([secret for secret in secrets if len(secret) >= SHORTEST], value)


def _shown(group: BaseModel) -> dict[str, Any]:
    return {name: _value(name, getattr(group, name)) for name in type(group).model_fields}


def _value(name: str, value: Any) -> Any:
    match value:
        case BaseModel():
            return _shown(value)
        case None | bool() | int() | float():
            return value
        case _ if name.endswith("_parameters"):  # of an endpoint: anybody's guess what is in them
            return {key: _number(one) for key, one in value.items()}
        case _ if _is_secret(name):
            return _hidden(value)
        case dict():
            return {key: _value(name, one) for key, one in value.items()}
        case tuple() | list():
            return [_value(name, one) for one in value]
    return _where(str(value)) if "://" in str(value) else str(value)


def _is_secret(name: str) -> bool:
    return name not in PLAIN and SECRET.search(name) is not None


def _number(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float) else MASK


def _hidden(value: Any) -> Any:
    if isinstance(value, tuple | list):  # of API keys whose they are
        users = (str(one).partition(":")[2] for one in value)
        return [f"{MASK} ({user})" if user else MASK for user in users]
    return _where(str(value))


def _where(text: str) -> str:
    address = ADDRESS.fullmatch(text)
    return f"{address['scheme']}://{address['place']}" if address else MASK


def _secrets(value: Any, name: str = "") -> Iterator[str]:
    """Every text among the settings that is to be seen nowhere."""
    match value:
        case dict():
            inside = name if name.endswith("_parameters") else ""
            for key, one in value.items():
                yield from _secrets(one, inside or str(key))
        case list():
            for one in value:
                yield from _secrets(one, name)
        case str() if name.endswith("_parameters"):
            if len(value) >= LIKELY:
                yield value
        case str() if "://" in value:
            address = ADDRESS.fullmatch(value)
            if address and address["user"]:
                yield from filter(None, address["user"].rstrip("@").split(":", 1))
            if address and address["options"]:
                found = re.findall(r"=([^&#]+)", address["options"])
                yield from (one for one in found if len(one) >= LIKELY)
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
