"""Which trace contexts are passed on."""

import pytest

from secretary.core.http_headers import read_traceparent, trace_id

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_valid_one_is_passed_on() -> None:
    assert read_traceparent(f" {TRACE} ") == TRACE
    assert trace_id(TRACE) == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "nonsense",
        TRACE.upper(),
        f"{TRACE}-more",
        TRACE.replace("00-", "ff-", 1),
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        TRACE[:-1],
    ],
)
def test_a_malformed_one_is_ignored(text: str | None) -> None:
    assert read_traceparent(text) is None
    assert trace_id(read_traceparent(text)) is None


def test_of_a_later_version_what_we_know_is_passed_on() -> None:
    assert read_traceparent(TRACE.replace("00-", "cc-", 1) + "-more") == TRACE
