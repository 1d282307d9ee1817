"""Secrets among the parameters of a job."""

from typing import Any

import pytest

from secretary.core.job import (
    MASK,
    Job,
    Webhook,
    drop_masked,
    has_secrets,
    mask_secrets,
    mask_url,
    remove_secrets,
)
from secretary.handlers import BUILTIN

GIVEN: dict[str, Any] = {
    "url": "https://example.org/a.pdf",
    "password": "sesame",
    "page_end": 3,
    "extra": {"apiKey": "k", "callback_token": "t", "tokens": 5, "note": "n"},
}


def test_they_are_masked_wherever_they_stand() -> None:
    assert mask_secrets(GIVEN) == {
        "url": "https://example.org/a.pdf",
        "page_end": 3,
        "password": MASK,
        "extra": {"tokens": 5, "note": "n", "apiKey": MASK, "callback_token": MASK},
    }
    assert Job(parameters=GIVEN).document()["parameters"] == mask_secrets(GIVEN)


def test_or_left_out() -> None:
    harmless = {
        "url": "https://example.org/a.pdf",
        "page_end": 3,
        "extra": {"tokens": 5, "note": "n"},
    }
    assert remove_secrets(GIVEN) == harmless
    assert (has_secrets(GIVEN), has_secrets(harmless)) == (True, False)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ann:sesame@example.org/a.pdf", "https://•••@example.org/a.pdf"),
        ("https://example.org/a?v=1&access_token=s#x", "https://example.org/a?v=1&access_token=•••#x"),
        ("https://b.s3.test/a?X-Amz-Expires=9&X-Amz-Signature=s&X-Amz-Security-Token=s",
         "https://b.s3.test/a?X-Amz-Expires=9&X-Amz-Signature=•••&X-Amz-Security-Token=•••"),
        ("https://c.blob.test/a?se=2026&sig=s%2Fs", "https://c.blob.test/a?se=2026&sig=•••"),
        ("https://example.org/?apiKey=s;key=s", "https://example.org/?apiKey=•••;key=•••"),
        ("https://example.org/watch?v=s&monkey=s", "https://example.org/watch?v=s&monkey=s"),
        ("Read https://example.org/?token=s", "Read https://example.org/?token=s"),
    ],
)  # fmt: skip
def test_urls_are_shown_without_their_secrets(url: str, shown: str) -> None:
    parameters = {"url": url, "file_source": {"type": "url", "value": url}}
    assert mask_secrets(parameters) == {
        "url": shown,
        "file_source": {"type": "url", "value": shown},
    }
    webhook = Webhook(url=url)
    assert webhook.public()["url"] == (shown if url.startswith("https") else mask_url(url))


def test_a_masked_url_that_a_client_sends_back_changes_nothing() -> None:
    given = {"url": f"https://example.org/?token={MASK}", "page_end": 3, "text": f"a {MASK}"}
    assert drop_masked(given) == {"page_end": 3, "text": f"a {MASK}"}
    assert drop_masked({"file_source": {"type": "url", "value": given["url"]}}) == {}


def test_all_else_stays_as_it_is() -> None:
    plain = {"use_cache": True, "password": None, "secret": False, "context": {"password": "mine"}}
    assert mask_secrets(plain) == remove_secrets(plain) == plain
    assert not has_secrets(plain)


@pytest.mark.parametrize("extra", [None, 7, "password", ["password"]])
def test_an_odd_extra_is_left_alone(extra: Any) -> None:
    assert mask_secrets({"extra": extra, "token": "t"}) == {"extra": extra, "token": MASK}


def test_what_a_schema_marks_as_one_is_one_and_nothing_else_is() -> None:
    """A new secret must be added in both places, and no harmless name may look like a secret."""
    marked, named = set(), set()
    for handler in BUILTIN:
        for name, field in handler.parameters.model_json_schema()["properties"].items():
            if field.get("writeOnly"):
                marked.add(name)
            if has_secrets({name: "x"}):
                named.add(name)
    assert marked == named == {"password"}
