"""JSON encoding, and large values off the event loop."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from secretary.core.job import JobStatus
from secretary.core.json_codec import (
    LARGE_BYTES,
    clean_text,
    clean_texts,
    encode_in_parts,
    encode_json,
    encode_off_loop,
    encode_strict_json,
    is_large,
)
from secretary.documents.text_output import TextOutput, update_text_output, write_text_output
from secretary.jobs.handler import results_as_json
from secretary.media.probe import Chapter
from secretary.media.speech.engines import TimedText, Transcription
from secretary.media.transcript import (
    MARKDOWN_FILE,
    StoredTranscript,
    Transcript,
    encode_record,
    write_transcript,
)
from secretary.storage import append_log

CONTROLS = "".join(map(chr, (*range(32), *range(0x7F, 0xA0))))
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


def test_texts_are_cleaned_of_control_characters() -> None:
    assert clean_text(f"a{CONTROLS}b") == "a\t\n  \r b"
    assert (
        clean_text("Grüße\tan\r\nalle \u2028 \U0001f600") == "Grüße\tan\r\nalle \u2028 \U0001f600"
    )
    assert clean_text("one\x0ctwo\x85three\x00four") == "one two threefour"
    value = {"a\0": ["b\x1b", {"c": ("d", 1, None, 1.5, True)}]}
    assert clean_texts(value) == {"a": ["b", {"c": ("d", 1, None, 1.5, True)}]}


class _Results(BaseModel):
    title: str


@pytest.mark.parametrize("results", [{"title": "a\0b\x1b"}, _Results(title="a\0b\x1b")])
def test_results_of_any_handler_are_stored_without_them(results: Any) -> None:
    assert results_as_json(results) == {"title": "ab"}


def test_transcripts_have_none(tmp_path: Path) -> None:
    said = (TimedText(0, 1, f"He{CONTROLS}llo"),)
    spoken = Transcription(language="en", segments=said, confidence=1.0)
    append_log.append(str(tmp_path), 0, encode_record(spoken))
    stored = StoredTranscript(directory=str(tmp_path), chunk_count=1, language="en")
    chapters = [Chapter(start=0, end=1, title="On\x07e")]
    write_transcript(
        Transcript(directory=str(tmp_path), spoken=stored, title="T\0itle", chapters=chapters)
    )
    for path in tmp_path.glob("*.*"):
        if not path.name.startswith(append_log.FILE_PREFIX):
            text = path.read_text()
            decoded = str(json.loads(text)) if path.suffix == ".json" else text
            assert clean_text(decoded) == decoded, path
    assert (tmp_path / MARKDOWN_FILE).read_text().startswith("# Title")


def test_texts_of_models_have_none(tmp_path: Path) -> None:
    output = TextOutput(
        directory=str(tmp_path),
        markdown="# A\x1b[31m",
        structured_data={"title": "A\0"},
        front_matter={"title": "A\x07"},
        target_format="html",
    )
    write_text_output(output)
    update_text_output(str(tmp_path), "# B\0", structured_data={"b": "\1"}, front_matter={})
    for path in tmp_path.iterdir():
        text = path.read_text()
        assert not any(char in text for char in "\0\1\x07\x1b"), path
        assert "\\u00" not in text
