"""JSON encoding, and large values off the event loop."""

import json
import threading
from typing import Any

import pytest

from secretary.core.job import JobStatus
from secretary.core.json_codec import (
    LARGE_BYTES,
    encode_in_parts,
    encode_json,
    encode_off_loop,
    encode_strict_json,
    is_large,
)

TEXT = "Grüße aus Köln. " * (LARGE_BYTES // 8)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        "Grüße \u2028",
        [],
        {},
        {"a": [{"b": "c"}]},
        2**70,
        -(2**70),
        "\ud800",
        {"\udfff": 1},
    ],
    ids=repr,
)
def test_encoding_preserves_the_value(value: object) -> None:
    assert json.loads(encode_json(value)) == value


def test_a_status_is_encoded_as_its_name() -> None:
    assert encode_json({"status": JobStatus.COMPLETED}) == b'{"status":"completed"}'


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        {"a": TEXT, "b": [], "c": {"d": None}},
        {"pages": [{"page": n, "text": "ä" * 1000} for n in range(300)], "n": 1},
        [[n, [n]] for n in range(20_000)],
        [TEXT, "", {}, [TEXT, 1]],
        {"lone": "\ud800" + TEXT, "\udfff": 2**70},
        list(range(LARGE_BYTES)),
    ],
    ids=["text", "document", "pages", "nested", "list", "surrogates", "numbers"],
)
@pytest.mark.parametrize("encode", [encode_json, encode_strict_json])
def test_parts_make_the_same_bytes_as_the_whole(value: Any, encode: Any) -> None:
    assert is_large(value)
    encoded = encode_in_parts(value, encode)
    if "\ud800" in str(value)[:100]:  # escaped only in this part, instead of everywhere
        assert json.loads(encoded) == value
    else:
        assert encoded == encode(value)


def test_keys_that_are_no_texts_become_texts() -> None:
    assert json.loads(encode_in_parts({1: TEXT})) == {"1": TEXT}


def test_nan_is_refused_in_any_part() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode_in_parts({"a": TEXT, "b": [float("nan")]}, encode_strict_json)


@pytest.mark.parametrize(("value", "is_in_thread"), [({"a": 1}, False), ({"a": TEXT}, True)])
async def test_only_large_values_are_encoded_in_a_thread(value: Any, is_in_thread: bool) -> None:
    threads = set()

    def encode(part: Any) -> bytes:
        threads.add(threading.current_thread())
        return encode_json(part)

    assert json.loads(await encode_off_loop(value, encode)) == value
    assert threads == {threading.current_thread()} or is_in_thread
    assert (threading.current_thread() not in threads) == is_in_thread
