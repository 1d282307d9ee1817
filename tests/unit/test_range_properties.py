"""Any requested range of a file returns these bytes, or all of them, or a documented error."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from secretary.api.files import MAX_RANGES, _file_response, _read_ranges
from secretary.storage.artifacts import ArtifactFile

CONTENT = bytes(range(256)) * 3
NUMBER = st.integers(0, len(CONTENT) + 3).map(str) | st.sampled_from(
    ["", "0", "00", "9" * 18, "9" * 19]
)
ONE = st.builds(
    "{}{}-{}{}".format, st.sampled_from(["", " "]), NUMBER, NUMBER, st.sampled_from(["", " "])
)
HEADER = (
    st.lists(ONE, min_size=1, max_size=4).map(lambda parts: "bytes=" + ",".join(parts))
    | st.integers(MAX_RANGES - 1, MAX_RANGES + 2).map(lambda n: "bytes=" + ",".join(["0-0"] * n))
    | st.sampled_from(["bytes", "bytes=", "bytes=a-b", "items=0-1", "BYTES=0-1", "bytes=1-0", "=",
                       "bytes=0-1,", "bytes=-", "bytes=--1", "bytes=0-1;2-3", "bytes =0-1"])
    | st.text("bytes=0123456789-, \t", max_size=20)
)  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.bin")
        path.write_bytes(CONTENT)
        app = FastAPI()

        @app.get("/")
        def get(request: Request) -> Response:
            return _file_response(request, ArtifactFile("a.bin", len(CONTENT), 0.0, path=path))

        with TestClient(app) as client:
            yield client


@given(header=HEADER)
def test_the_bytes_that_were_asked_for_come(client: TestClient, header: str) -> None:
    response = client.get("/", headers={"Range": header})
    match response.status_code:
        case 200:
            assert response.content == CONTENT
        case 206:
            for start, end, content in parts_of(response):
                assert content == CONTENT[start : end + 1]
            assert response.headers["content-length"] == str(len(response.content))
        case status:
            assert status in (400, 416)
            assert "detail" in response.json(), "our own error, not the framework's"


def parts_of(response: Any) -> Iterator[tuple[int, int, bytes]]:
    content_range = re.compile(rb"bytes (\d+)-(\d+)/%d" % len(CONTENT))
    kind = response.headers["content-type"]
    if not kind.startswith("multipart/byteranges"):
        match = content_range.fullmatch(response.headers["content-range"].encode())
        assert match is not None
        yield int(match[1]), int(match[2]), response.content
        return
    border = b"--" + kind.partition("boundary=")[2].encode()
    for part in response.content.split(border)[1:-1]:
        heading, _, content = part.partition(b"\r\n\r\n")
        match = content_range.search(heading)
        assert match is not None
        yield int(match[1]), int(match[2]), content.removesuffix(b"\r\n")


@given(HEADER, st.integers(0, 10**6))
def test_what_is_read_lies_in_the_file(header: str, size: int) -> None:
    """For files in the blob store, which the API streams itself."""
    try:
        ranges = _read_ranges(header, size)
    except HTTPException as error:
        assert error.status_code in (400, 416)
        assert (
            error.status_code == 400 or (error.headers or {})["Content-Range"] == f"bytes */{size}"
        )
    else:
        assert all(0 <= start < end <= size for start, end in ranges)
        assert len(ranges) <= MAX_RANGES
