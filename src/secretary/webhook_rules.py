"""What a webhook must be like, so that its events can be sent."""

import re
from collections.abc import Callable, Iterator

from .errors import AddressRefused
from .job import EVENT_NAMES, Webhook

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: A line break in a header would let a client write further ones.
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

#: Raises AddressRefused for a URL that may not be reached.
UrlCheck = Callable[[str], None]


def any_url(url: str) -> None:
    """For those who check URLs elsewhere."""


def problems_of(webhook: Webhook, check_url: UrlCheck) -> Iterator[tuple[str, str]]:
    """What would keep every event from being sent. Says nothing of what is in secret fields."""
    try:
        check_url(webhook.url)
    except AddressRefused as error:
        yield "url", error.message
    if unknown := set(webhook.events or ()) - EVENT_NAMES.keys():
        yield "events", f"{', '.join(sorted(unknown))} is none of {', '.join(EVENT_NAMES)}"
    if not all(HEADER_NAME.fullmatch(name) for name in webhook.headers):
        yield "headers", "A name of a header has characters that are not allowed there"
    if any(CONTROL.search(value) for value in webhook.headers.values()):
        yield "headers", "A header may not contain line breaks or other control characters"
    if CONTROL.search(webhook.token or ""):
        yield "token", "A token may not contain line breaks or other control characters"
