"""Forms as clients send them, split anywhere, and as nobody should send them."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Message

from secretary.api.requests import MAX_FIELDS, Form, read_files, read_form
from secretary.core.errors import FileTooLarge, InvalidParameters
from secretary.storage.sources import Uploads

MULTIPART = "multipart/form-data; boundary=XX"
URLENCODED = "application/x-www-form-urlencoded"
Read = Callable[..., Awaitable[Form]]


def part(headers: str, content: bytes = b"") -> bytes:
    return b"--XX\r\n" + headers.encode() + b"\r\n\r\n" + content + b"\r\n"


def field(name: str, value: str) -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"', value.encode())


def file(content: bytes = b"content", name: str = "a.txt", key: str = "file") -> bytes:
    disposition = f'Content-Disposition: form-data; name="{key}"; filename="{name}"'
    return part(f"{disposition}\r\nContent-Type: text/plain", content)


def whole(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--XX--\r\n"


def request(
    kind: str,
    pieces: Sequence[bytes],
    *,
    query: bytes = b"",
    cut_off: bool = False,
    max_body_bytes: int = 5000,
) -> Request:
    last: Message = {"type": "http.request", "body": b"", "more_body": False}
    messages: list[Message] = [
        {"type": "http.request", "body": piece, "more_body": True} for piece in pieces
    ]
    messages.append({"type": "http.disconnect"} if cut_off else last)
    coming = iter(messages)

    async def receive() -> Message:
        return next(coming)

    headers = [(b"content-type", kind.encode("latin-1"))] if kind else []
    scope = {"type": "http", "method": "POST", "headers": headers, "query_string": query}
    app = SimpleNamespace(state=SimpleNamespace(max_body_bytes=max_body_bytes))
    return Request({**scope, "app": app}, receive)


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path, max_bytes=10_000)


@pytest.fixture
def read(uploads: Uploads) -> Read:
    async def read(kind: str, *pieces: bytes, **options: Any) -> Form:
        asked = request(kind, pieces, **options)
        return await read_form(asked, uploads, job_id="job-1")

    return read


def stored_upload(uploads: Uploads) -> bytes | None:
    files = [path for path in uploads.root.rglob("*") if path.is_file()]
    assert len(files) < 2
    return files[0].read_bytes() if files else None


def nothing_is_left(uploads: Uploads) -> bool:
    return not uploads.root.exists() or not list(uploads.root.iterdir())


class TestMultipart:
    async def test_fields_stand_before_and_behind_the_file(
        self, read: Read, uploads: Uploads
    ) -> None:
        form = await read(MULTIPART, whole(field("a", "1"), file(), field("b", "zwölf")))
        assert form.fields == {"a": "1", "b": "zwölf"}
        assert form.upload is not None and form.upload.name == "a.txt"
        assert stored_upload(uploads) == b"content"

    async def test_a_form_without_a_file_has_none(self, read: Read, uploads: Uploads) -> None:
        form = await read(MULTIPART, whole(field("a", "1")))
        assert (form.fields, form.upload) == ({"a": "1"}, None)
        assert nothing_is_left(uploads)

    async def test_a_form_without_anything_is_empty(self, read: Read) -> None:
        assert (await read(MULTIPART, b"--XX--\r\n")).fields == {}

    @pytest.mark.parametrize("kind", ['Multipart/Form-Data; boundary="XX"', MULTIPART + "; a=b"])
    async def test_the_type_may_be_written_in_other_ways(self, read: Read, kind: str) -> None:
        assert (await read(kind, whole(field("a", "1")))).fields == {"a": "1"}

    async def test_a_preamble_and_an_epilogue_are_passed_over(self, read: Read) -> None:
        form = await read(MULTIPART, b"\r\n" + whole(field("a", "1")) + b"epilogue\r\n" * 3)
        assert form.fields == {"a": "1"}

    async def test_a_file_that_looks_like_a_form_is_not_cut(
        self, read: Read, uploads: Uploads
    ) -> None:
        content = b"\r\n--X\r\n--XY--XX\r\n\r\n-\r\n--\r\r\n"
        await read(MULTIPART, whole(file(content)))
        assert stored_upload(uploads) == content

    async def test_a_file_that_nobody_chose_is_none(self, read: Read, uploads: Uploads) -> None:
        form = await read(MULTIPART, whole(file(b"", ""), field("url", "http://x")))
        assert (form.fields, form.upload) == ({"url": "http://x"}, None)
        assert nothing_is_left(uploads)

    async def test_an_empty_file_with_a_name_is_one(self, read: Read) -> None:
        form = await read(MULTIPART, whole(file(b"")))
        assert form.upload is not None and form.upload.size == 0

    async def test_the_last_of_fields_with_one_name_counts(self, read: Read) -> None:
        form = await read(MULTIPART, whole(field("a", "1"), field("a", "2")))
        assert form.fields == {"a": "2"}


BODY = whole(field("a", "1\r\n--X"), file(b"\r\n-\r\n--X\r\r\n--", "ü.txt"), field("bb", "zwölf"))


async def test_a_form_may_be_cut_at_every_byte(tmp_path: Path) -> None:
    for offset in range(len(BODY) + 1):
        uploads = Uploads(tmp_path / str(offset))
        asked = request(MULTIPART, (BODY[:offset], BODY[offset:]))
        form = await read_form(asked, uploads, job_id="job-1")
        assert form.fields == {"a": "1\r\n--X", "bb": "zwölf"}
        assert form.upload is not None and form.upload.name == "ü.txt"
        assert stored_upload(uploads) == b"\r\n-\r\n--X\r\r\n--"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    content=st.lists(st.sampled_from([b"\r", b"\n", b"-", b"--XX", b"X", b"a" * 50])).map(b"".join),
    value=st.text(max_size=20),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_any_content_survives_any_cuts(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, value: str, cuts: list[int]
) -> None:
    if b"\r\n--XX" in b"\r\n" + content or "\r\n--XX" in "\r\n" + value:
        return
    body = whole(file(content), field("value", value))
    offsets = [0, *sorted(cuts), len(body)]
    pieces = [body[start:end] for start, end in itertools.pairwise(offsets)]
    uploads = Uploads(tmp_path_factory.mktemp("form"))

    async def reading() -> Form:
        asked = request(MULTIPART, pieces)
        return await read_form(asked, uploads, job_id="job-1")

    form = asyncio.run(reading())
    assert form.fields == {"value": value}
    assert stored_upload(uploads) == content


@settings(max_examples=150, deadline=None)
@given(body=st.lists(st.sampled_from([b"--XX", b"\r\n", b"--", b"a: b", b":", b";", b"x"])))
def test_a_broken_form_is_refused_and_leaves_nothing(
    tmp_path_factory: pytest.TempPathFactory, body: list[bytes]
) -> None:
    uploads = Uploads(tmp_path_factory.getbasetemp() / "broken")

    async def reading() -> Form | None:
        try:
            asked = request(MULTIPART, body)
            return await read_form(asked, uploads, job_id="job-1")
        except InvalidParameters:
            return None

    asyncio.run(reading())
    assert nothing_is_left(uploads)


class TestNames:
    @pytest.mark.parametrize(
        ("disposition", "name"),
        [
            ('filename="Prüfung.pdf"', "Prüfung.pdf"),
            ("filename=plain.pdf", "plain.pdf"),
            ('filename="say \\"hi\\".pdf"', "say _hi_.pdf"),
            ('filename="a;b.pdf"', "a;b.pdf"),
            ("filename*=UTF-8''Pr%C3%BCfung.pdf", "Prüfung.pdf"),
            ("filename=\"x.pdf\"; filename*=UTF-8''Pr%C3%BCfung.pdf", "Prüfung.pdf"),
            ("filename*=iso-8859-1'de'Pr%FCfung.pdf", "Prüfung.pdf"),
            ("filename=\"x.pdf\"; filename*=KOI8''%00", "x.pdf"),
            ('filename="../../etc/passwd"', "passwd"),
            ("filename*=UTF-8''..%2F..%2Fetc%2Fpasswd", "passwd"),
            ("filename*=UTF-8''a%00b.pdf", "ab.pdf"),
            ('filename="C:\\dir\\a.pdf"', "a.pdf"),
            ('filename=""', "upload"),
            ('FileName="a.pdf"', "a.pdf"),
        ],
    )
    async def test_a_file_is_called_as_its_owner_says(
        self, read: Read, disposition: str, name: str
    ) -> None:
        headers = f'Content-Disposition: form-data; name="file"; {disposition}'
        form = await read(MULTIPART, whole(part(headers, b"x")))
        assert form.upload is not None and form.upload.name == name

    @pytest.mark.parametrize("key", ["file", "files", "upload"])
    async def test_the_field_has_one_of_these_names(self, read: Read, key: str) -> None:
        assert (await read(MULTIPART, whole(file(key=key)))).upload is not None


class TestRefused:
    @pytest.mark.parametrize(
        ("body", "says"),
        [
            (whole(file(), file()), "one file"),
            (whole(file(key="picture")), "picture"),
            (whole(file())[:-4], "incomplete"),
            (file()[:-6], "incomplete"),
            (file(), "incomplete"),
            (field("a", "1"), "incomplete"),
            (b"", "incomplete"),
            (b"nonsense", "is malformed"),
            (b"--YY\r\n\r\n", "is malformed"),
            (b"--XX\r\nNo colon\r\n\r\n", "is malformed"),
            (b"--XX\r\n: x\r\n\r\n", "is malformed"),
            (whole(part("A: b\r\n" * 50 + "C: d")), "is malformed"),
            (whole(part("A: " + "b" * 10_000)), "is malformed"),
            (whole(part('Content-Disposition: form-data; name="a"', b"\xff")), "UTF-8"),
            (whole(*[field(f"a{n}", "") for n in range(MAX_FIELDS + 1)]), str(MAX_FIELDS)),
        ],
    )
    async def test_a_form_that_is_none_says_why_and_leaves_nothing(
        self, read: Read, uploads: Uploads, body: bytes, says: str
    ) -> None:
        with pytest.raises(InvalidParameters, match=says):
            await read(MULTIPART, body)
        assert nothing_is_left(uploads)

    @pytest.mark.parametrize("kind", ["multipart/form-data", "multipart/form-data; boundary="])
    async def test_a_form_without_a_boundary(self, read: Read, kind: str) -> None:
        with pytest.raises(InvalidParameters, match="boundary"):
            await read(kind, whole(file()))

    async def test_a_boundary_without_end(self, read: Read) -> None:
        with pytest.raises(InvalidParameters):
            await read(f"multipart/form-data; boundary={'X' * 5000}", b"")

    @pytest.mark.parametrize("kind", ["text/plain", "multipart/mixed; boundary=XX", "\xff", ";"])
    async def test_another_type(self, read: Read, kind: str) -> None:
        if kind == ";":  # without a content type: parsed as JSON
            assert (await read(kind, b"{}")).fields == {}
            return
        with pytest.raises(InvalidParameters, match="Content-Type"):
            await read(kind, b"{}")

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            (MULTIPART, whole(field("a", "x" * 5001))),
            (MULTIPART, whole(*[field(f"a{n}", "x" * 100) for n in range(60)])),
            (MULTIPART, whole(file(), field("a", "x" * 5001))),
            (URLENCODED, b"a=" + b"x" * 5000),
            ("application/json", b'"' + b"x" * 5000),
        ],
    )
    async def test_fields_that_are_too_large(
        self, read: Read, uploads: Uploads, kind: str, body: bytes
    ) -> None:
        with pytest.raises(HTTPException) as caught:
            await read(kind, body)
        assert caught.value.status_code == 413
        assert nothing_is_left(uploads)

    async def test_a_file_that_is_too_large(self, read: Read, uploads: Uploads) -> None:
        with pytest.raises(FileTooLarge):
            await read(MULTIPART, whole(file(bytes(10_001))))
        assert nothing_is_left(uploads)

    @pytest.mark.parametrize("size", [0, 20, 120, 200])
    async def test_a_client_that_leaves(self, read: Read, uploads: Uploads, size: int) -> None:
        body = whole(file(b"x" * 100), field("a", "1"))
        with pytest.raises(ClientDisconnect):
            await read(MULTIPART, body[:size], cut_off=True)
        assert nothing_is_left(uploads)


class TestOtherKinds:
    async def test_a_urlencoded_form(self, read: Read) -> None:
        form = await read(f"{URLENCODED}; charset=utf-8", b"a=1&b=zw%C3%B6", b"lf+x&c=")
        assert form.fields == {"a": "1", "b": "zwölf x", "c": ""}

    async def test_one_with_too_many_fields(self, read: Read) -> None:
        with pytest.raises(InvalidParameters, match=str(MAX_FIELDS)):
            await read(URLENCODED, b"&".join([b"a=1"] * (MAX_FIELDS + 1)))

    @pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", ""])
    async def test_json(self, read: Read, kind: str) -> None:
        body = json.dumps({"a": 1, "b": {"c": ["zwölf"]}}, ensure_ascii=False).encode()
        assert (await read(kind, body[:15], body[15:])).fields == {"a": 1, "b": {"c": ["zwölf"]}}

    @pytest.mark.parametrize("body", [b"", b" \n"])
    async def test_no_body_at_all(self, read: Read, body: bytes) -> None:
        assert (await read("application/json", body)).fields == {}

    @pytest.mark.parametrize(
        "body", [b"{", b"[]", b"1", b'"a"', b"null", b"\xff", b"[" * 4000, b"9" * 4900, b"{'a':1}"]
    )
    async def test_what_is_no_json_object(self, read: Read, body: bytes) -> None:
        with pytest.raises(InvalidParameters):
            await read("application/json", body)

    @pytest.mark.parametrize("kind", [MULTIPART, URLENCODED, "application/json"])
    async def test_the_query_is_used_where_the_body_has_no_value(
        self, read: Read, kind: str
    ) -> None:
        bodies = {MULTIPART: whole(field("a", "1")), URLENCODED: b"a=1"}
        body = bodies.get(kind, b'{"a": "1"}')
        form = await read(kind, body, query=b"a=2&b=3")
        assert form.fields == {"a": "1", "b": "3"}


class TestSeveralFiles:
    BODY = whole(field("a", "1"), file(b"one", "1.txt"), file(b"", "2.txt"), file(b"three", ""))

    @given(st.sets(st.integers(1, len(BODY) - 1), max_size=8))
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
    def test_they_keep_their_borders_wherever_the_body_is_cut(
        self, tmp_path: Path, cuts: set[int]
    ) -> None:
        edges = [0, *sorted(cuts), len(self.BODY)]
        pieces = [self.BODY[a:b] for a, b in itertools.pairwise(edges)]
        uploads = Uploads(tmp_path, max_bytes=10_000)
        asked = request(MULTIPART, pieces, max_body_bytes=100)
        form = asyncio.run(read_files(asked, uploads, max_files=3))
        assert form.fields == {"a": "1"}
        contents = [uploads.path_of(one.job_id, one.source()).read_bytes() for one in form.uploads]
        assert contents == [b"one", b"", b"three"]

    async def test_one_too_many_leaves_none(self, uploads: Uploads) -> None:
        with pytest.raises(InvalidParameters, match="at most 2 files"):
            asked = request(MULTIPART, [self.BODY], max_body_bytes=100)
            await read_files(asked, uploads, max_files=2)
        assert stored_upload(uploads) is None
