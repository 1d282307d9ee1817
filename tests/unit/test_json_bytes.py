"""JSON, quickly written."""

import json

import pytest

from secretary.core.job import JobStatus
from secretary.core.json_codec import encode_json


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
def test_it_says_what_the_value_says(value: object) -> None:
    assert json.loads(encode_json(value)) == value


def test_a_state_is_its_name() -> None:
    assert encode_json({"status": JobStatus.COMPLETED}) == b'{"status":"completed"}'
