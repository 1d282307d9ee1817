"""Secrets among the parameters of a job."""

from typing import Any

import pytest

from secretary.core.job import MASK, Job, has_secrets, mask_secrets, remove_secrets
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
