"""Connects to a MongoDB by the address that an operator gives."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

from pymongo import AsyncMongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from ...errors import StoreUnavailable
from .schema import Document

#: What the driver does unless the address says otherwise.
OPTIONS: dict[str, Any] = {
    "appname": "secretary",
    "tz_aware": True,
    "retryWrites": True,
    "serverSelectionTimeoutMS": 5_000,
    "connectTimeoutMS": 5_000,
    "socketTimeoutMS": 20_000,
    "maxPoolSize": 32,
}


def connect(url: str, **options: Any) -> tuple[AsyncMongoClient[Document], str]:
    """A client, which asks nothing yet, and the hosts it will ask, as messages may name them."""
    try:
        address = _address_of(url)
        given = {name.lower() for name in parse_qs(urlsplit(url).query)}
        chosen = {name: v for name, v in (OPTIONS | options).items() if name.lower() not in given}
        return AsyncMongoClient(url, **chosen), address
    except (PyMongoError, ValueError):
        # The driver quotes the part it cannot read, and that may be the password.
        raise StoreUnavailable("The address of the MongoDB is not a valid one") from None


def _address_of(url: str) -> str:
    """The hosts that a URL names, never its user or password."""
    if url.startswith("mongodb+srv:"):
        return urlsplit(url).hostname or "an unnamed host"
    nodes: list[tuple[str, int | None]] = parse_uri(url)["nodelist"]
    return ",".join(host if port is None else f"{host}:{port}" for host, port in nodes)
