"""Downloads from a real server on loopback, well behaved or not."""

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import trustme

from secretary.core.errors import (
    AddressRefused,
    DownloadFailed,
    DownloadRefused,
    FileTooLarge,
    JobFailed,
    UnexpectedContentType,
)
from secretary.network import DownloadLimits
from secretary.network.client import Network
from secretary.network.downloads import Download, download
from tests.web_server import Answer, Web, WebRequest, serving

BODY = b"%PDF-1.7 and so on"
SMALL = DownloadLimits(
    max_bytes=100_000, total=timedelta(seconds=20), idle=timedelta(seconds=10), max_redirects=5
)


def always(body: bytes = BODY, **options: Any) -> Answer:
    async def answer(request: WebRequest) -> None:
        await request.answer(body, **options)

    return answer


async def fetched(
    web: Web, target: Path, path: str = "/a.pdf", limits: DownloadLimits = SMALL, **options: Any
) -> Download:
    network = options.pop("network", None) or Network([web.host])
    url = options.pop("url", None) or web.url(path)
    return await download(network, url, target, limits=limits, **options)


async def failure(answer: Answer, directory: Path, **options: Any) -> JobFailed:
    """The error of a download that must fail and leave nothing behind."""
    async with serving(answer) as web:
        with pytest.raises(JobFailed) as caught:
            await fetched(web, directory / "file", **options)
    assert list(directory.iterdir()) == []
    return caught.value


class TestWhatComes:
    async def test_the_file_is_there_with_its_size_kind_and_name(self, tmp_path: Path) -> None:
        headers = {
            "Content-Type": "Application/PDF; charset=binary",
            "Content-Disposition": "attachment; filename*=UTF-8''%C3%9Cbersicht.pdf",
        }
        async with serving(always(headers=headers)) as web:
            target = tmp_path / "new" / "file"
            assert await fetched(web, target, "/get?id=1") == Download(
                path=target,
                file_name="Übersicht.pdf",
                final_url=web.url("/get?id=1"),
            )
        assert target.read_bytes() == BODY
        assert list(target.parent.iterdir()) == [target]

    @pytest.mark.parametrize(
        ("path", "target"),
        [
            ("/Straße nach Köln.pdf", "/Stra%C3%9Fe%20nach%20K%C3%B6ln.pdf"),
            ("/Stra%c3%9fe%20x.pdf", "/Stra%c3%9fe%20x.pdf"),
            ("//double//slash", "//double//slash"),
            ("/a%2Fb%2e%2e/c", "/a%2Fb%2e%2e/c"),
            ("/a.pdf?url=https://x.example/y&z=1+2%20ü#Seite=3", None),
            ("/get?file=../../b.pdf&x=a//b", "/get?file=../../b.pdf&x=a//b"),
            ("/a.pdf#page=2", "/a.pdf"),
            ("", "/"),
            ("?q=1", "/?q=1"),
        ],
    )
    async def test_the_url_reaches_the_server_as_it_was_given(
        self, tmp_path: Path, path: str, target: str | None
    ) -> None:
        async with serving(always()) as web:
            await fetched(web, tmp_path / "file", path)
        expected = target or "/a.pdf?url=https://x.example/y&z=1+2%20%C3%BC"
        assert [incoming.target for incoming in web.requests] == [expected]

    async def test_progress_is_reported_to_the_end(self, tmp_path: Path) -> None:
        progress: list[tuple[int, int | None]] = []
        body = bytes(3_000_000)
        async with serving(always(body)) as web:
            limits = DownloadLimits(max_bytes=len(body))
            await fetched(
                web, tmp_path / "file", limits=limits, on_progress=lambda *t: progress.append(t)
            )
        assert len(progress) > 1
        assert progress[-1] == (3_000_000, 3_000_000)
        assert progress == sorted(progress)

    async def test_a_body_without_a_length_is_taken_whole(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(BODY, headers={"Content-Length": "", "Connection": "close"})
            request.writer.close()

        async with serving(answer) as web:
            assert (await fetched(web, tmp_path / "file")).path.stat().st_size == len(BODY)

    async def test_a_file_that_was_there_is_replaced_at_once(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"old")
        async with serving(always()) as web:
            await fetched(web, tmp_path / "file")
        assert (tmp_path / "file").read_bytes() == BODY

    async def test_what_is_of_an_unwanted_kind_is_left_where_it_is(self, tmp_path: Path) -> None:
        async def endless(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=x\r\n\r\n")
            while True:
                await request.send(bytes(1000))

        error = await failure(endless, tmp_path, unwanted=frozenset({"text/html"}))
        assert type(error) is UnexpectedContentType
        assert error.details == {"host": "127.0.0.1", "content_type": "text/html"}
        async with serving(always(headers={"Content-Type": "text/html"})) as web:
            done = await fetched(web, tmp_path / "file", unwanted=frozenset({"image/png"}))
        assert done.path.exists()


class TestCompression:
    async def test_none_is_asked_for(self, tmp_path: Path) -> None:
        async with serving(always()) as web:
            await fetched(web, tmp_path / "file")
        assert web.requests[0].headers["accept-encoding"] == "identity"

    @pytest.mark.parametrize(
        "packed",
        [gzip.compress(BODY), gzip.compress(BODY[:5]) + gzip.compress(BODY[5:])],
        ids=["one piece", "two pieces"],
    )
    async def test_gzip_is_understood_all_the_same(self, tmp_path: Path, packed: bytes) -> None:
        async with serving(always(packed, headers={"Content-Encoding": "gzip"})) as web:
            done = await fetched(web, tmp_path / "file")
        assert done.path.read_bytes() == BODY

    async def test_a_bomb_is_stopped_at_the_limit(self, tmp_path: Path) -> None:
        bomb = gzip.compress(bytes(50_000_000))
        assert len(bomb) < SMALL.max_bytes
        error = await failure(always(bomb, headers={"Content-Encoding": "gzip"}), tmp_path)
        assert isinstance(error, FileTooLarge)

    @pytest.mark.parametrize("coding", ["gzip, gzip", "br", "deflate", "zstd", "GZIP,identity"])
    async def test_other_codings_are_refused(self, tmp_path: Path, coding: str) -> None:
        error = await failure(always(headers={"Content-Encoding": coding}), tmp_path)
        assert isinstance(error, DownloadRefused)

    @pytest.mark.parametrize(
        "body",
        [gzip.compress(BODY)[:-9], b"not gzip at all", b""],
        ids=["cut short", "not gzip at all", "empty"],
    )
    async def test_what_is_not_whole_gzip_is_a_failure(self, tmp_path: Path, body: bytes) -> None:
        error = await failure(always(body, headers={"Content-Encoding": "gzip"}), tmp_path)
        assert error.code == "DOWNLOAD_FAILED"


class TestBounds:
    async def test_an_announced_size_over_the_limit_is_refused_at_once(
        self, tmp_path: Path
    ) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100001\r\n\r\n")
            await asyncio.Event().wait()

        error = await failure(answer, tmp_path)
        assert isinstance(error, FileTooLarge)
        assert error.details["max_bytes"] == 100_000

    async def test_an_endless_body_is_stopped_at_the_limit(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                await request.send(b"1000\r\n" + bytes(0x1000) + b"\r\n")

        assert isinstance(await failure(answer, tmp_path), FileTooLarge)

    async def test_exactly_the_limit_is_allowed(self, tmp_path: Path) -> None:
        async with serving(always(bytes(100_000))) as web:
            assert (await fetched(web, tmp_path / "file")).path.stat().st_size == 100_000

    async def test_a_body_that_drips_for_ever_is_given_up(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                await request.send(b"x")
                await asyncio.sleep(0.01)

        limits = DownloadLimits(total=timedelta(seconds=0.5), idle=timedelta(seconds=10))
        error = await failure(answer, tmp_path, limits=limits)
        assert error.message == "The download from 127.0.0.1 took longer than 0.5 s"
        assert error.retryable

    async def test_headers_that_drip_for_ever_are_given_up(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(b"HTTP/1.1 200 OK\r\nX: ")
            while True:
                await request.send(b"x")
                await asyncio.sleep(0.01)

        limits = DownloadLimits(total=timedelta(seconds=0.5), idle=timedelta(seconds=10))
        assert (await failure(answer, tmp_path, limits=limits)).retryable

    @pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"])
    async def test_silence_is_given_up(self, tmp_path: Path, start: bytes) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(start)
            await asyncio.Event().wait()

        limits = DownloadLimits(idle=timedelta(seconds=0.2))
        error = await failure(answer, tmp_path, limits=limits)
        assert error.message == "127.0.0.1 did not respond in time"
        assert error.retryable

    async def test_a_body_shorter_than_announced_is_a_failure(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(BODY, headers={"Content-Length": "1000"})
            request.writer.close()

        error = await failure(answer, tmp_path)
        assert error.message == "The connection to 127.0.0.1 failed"
        assert error.retryable

    async def test_what_comes_after_the_announced_size_is_not_taken(self, tmp_path: Path) -> None:
        async with serving(always(BODY, headers={"Content-Length": "4"})) as web:
            done = await fetched(web, tmp_path / "file")
        assert done.path.read_bytes() == b"%PDF"

    async def test_a_reset_connection_is_a_failure(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(BODY, headers={"Content-Length": "1000"})
            now = struct.pack("ii", 1, 0)
            request.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, now
            )
            request.writer.transport.abort()

        assert (await failure(answer, tmp_path)).retryable

    async def test_what_is_not_http_is_a_failure(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.send(b"220 mail.example ESMTP\r\n")
            request.writer.close()

        assert (await failure(answer, tmp_path)).code == "DOWNLOAD_FAILED"

    async def test_nobody_listening_is_a_failure(self, tmp_path: Path) -> None:
        async with serving(always()) as web:
            pass
        with pytest.raises(DownloadFailed, match=r"127\.0\.0\.1 cannot be reached") as caught:
            await fetched(web, tmp_path / "file")
        assert caught.value.retryable

    async def test_a_cancelled_download_leaves_no_file(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(bytes(2_000_000), headers={"Content-Length": "9000000"})
            await asyncio.Event().wait()

        begun = asyncio.Event()
        async with serving(answer) as web:
            task = asyncio.create_task(
                fetched(
                    web,
                    tmp_path / "file",
                    limits=DownloadLimits(),
                    on_progress=lambda size, total: begun.set(),
                )
            )
            async with asyncio.timeout(10):
                await begun.wait()
            assert len(list(tmp_path.iterdir())) == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("steps", range(0, 60, 3))
    async def test_at_whatever_moment_that_is(self, tmp_path: Path, steps: int) -> None:
        async with serving(always(bytes(3_000_000))) as web:
            task = asyncio.create_task(fetched(web, tmp_path / "file", limits=DownloadLimits()))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
        remaining = {path.name for path in tmp_path.iterdir()}
        assert remaining == (set() if task.cancelled() else {"file"})


class TestStatus:
    @pytest.mark.parametrize(
        "status", ["400 x", "401 x", "403 x", "404 x", "410 x", "451 x", "501 x", "204 x", "304 x"]
    )
    async def test_what_would_not_change_is_not_tried_again(
        self, tmp_path: Path, status: str
    ) -> None:
        error = await failure(always(b"", status=status), tmp_path)
        assert isinstance(error, DownloadRefused)
        assert not error.retryable
        assert error.details == {"host": "127.0.0.1", "status": int(status[:3])}

    @pytest.mark.parametrize("status", ["408 x", "429 x", "500 x", "502 x", "503 x", "504 x"])
    async def test_what_may_pass_is(self, tmp_path: Path, status: str) -> None:
        error = await failure(always(status=status), tmp_path)
        assert (error.code, error.retryable) == ("DOWNLOAD_FAILED", True)
        assert error.details["status"] == int(status[:3])
        assert error.retry_after is None

    async def test_the_message_describes_the_status_in_our_words(self, tmp_path: Path) -> None:
        error = await failure(always(status="404 <script>"), tmp_path)
        assert error.message == "127.0.0.1 answered 404 Not Found"

    @pytest.mark.parametrize(
        ("header", "seconds"), [("120", 120), ("0", 0), ("999999999999", 3600)]
    )
    async def test_retry_after_is_honoured_within_reason(
        self, tmp_path: Path, header: str, seconds: int
    ) -> None:
        answer = always(status="503 x", headers={"Retry-After": header})
        error = await failure(answer, tmp_path)
        assert error.retry_after == timedelta(seconds=seconds)

    async def test_retry_after_may_be_a_time(self, tmp_path: Path) -> None:
        moment = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
        answer = always(status="429 x", headers={"Retry-After": moment})
        error = await failure(answer, tmp_path)
        assert error.retry_after is not None
        assert timedelta(minutes=9) < error.retry_after <= timedelta(minutes=10)

    @pytest.mark.parametrize("header", ["soon", "-5", "Mon, 99 Foo 2026"])
    async def test_a_retry_after_that_means_nothing_is_left_out(
        self, tmp_path: Path, header: str
    ) -> None:
        answer = always(status="503 x", headers={"Retry-After": header})
        assert (await failure(answer, tmp_path)).retry_after is None


class TestRedirects:
    @pytest.mark.parametrize("status", ["301 x", "302 x", "303 x", "307 x", "308 x"])
    async def test_they_are_followed(self, tmp_path: Path, status: str) -> None:
        async def answer(request: WebRequest) -> None:
            if request.target == "/a":
                await request.redirect("/b/c.pdf?x=1", status)
            else:
                await request.answer(BODY)

        async with serving(answer) as web:
            done = await fetched(web, tmp_path / "file", "/a")
        assert (done.file_name, done.final_url) == ("c.pdf", web.url("/b/c.pdf?x=1"))

    async def test_five_are_enough_and_six_too_many(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            remaining = int(request.target[1:])
            await (request.redirect(f"/{remaining - 1}") if remaining else request.answer(BODY))

        async with serving(answer) as web:
            await fetched(web, tmp_path / "file", "/5")
            (tmp_path / "file").unlink()
        error = await failure(answer, tmp_path, path="/6")
        assert error.message == "127.0.0.1 redirects more than 5 times"
        assert not error.retryable

    @pytest.mark.parametrize(
        "location",
        ["http://169.254.169.254/latest/", "http://localhost/", "http://[::1]/", "//10.0.0.1/",
         "http://2130706433:1/", "file:///etc/passwd", "ftp://example.org/", "http://a:b@1.1.1.1/",
         "http://127.0.0.1:1/", "http+unix://x/"],
    )  # fmt: skip
    async def test_each_is_checked_like_the_first(self, tmp_path: Path, location: str) -> None:
        async def answer(request: WebRequest) -> None:
            await request.redirect(location)

        error = await failure(answer, tmp_path)
        assert isinstance(error, AddressRefused)
        assert not error.retryable

    async def test_a_redirect_to_a_name_that_leads_inside_is_refused(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            await request.redirect("http://evil.example/")

        async def resolve(host: str, port: int) -> Sequence[str]:
            assert host == "evil.example"
            return ["127.0.0.1"]

        async with serving(answer) as web:
            with pytest.raises(AddressRefused, match=r"evil\.example is not a public"):
                network = Network([web.host], resolve=resolve)
                await fetched(web, tmp_path / "file", network=network)
            assert web.connections == 1

    @pytest.mark.parametrize(
        "location",
        [
            "",
            "http://[::1",
            "http://x:y/",
            "//xn--0.x/",
            "http:\\\\x",
            "http:\\\\127.0.0.1\\a",
            "http:x",
        ],
    )
    async def test_a_redirect_to_nowhere_is_a_failure(self, tmp_path: Path, location: str) -> None:
        async def answer(request: WebRequest) -> None:
            await request.redirect(location)

        error = await failure(answer, tmp_path)
        assert error.message == "127.0.0.1 redirects to no valid URL"
        assert not error.retryable

    async def test_a_cookie_comes_back_to_its_server(self, tmp_path: Path) -> None:
        async def answer(request: WebRequest) -> None:
            if "cookie" in request.headers:
                await request.answer(BODY)
            else:
                headers = {"Location": request.target, "Set-Cookie": "seen=1"}
                await request.answer(status="302 x", headers=headers)

        async with serving(answer) as web:
            await fetched(web, tmp_path / "file")
        assert web.requests[1].headers["cookie"] == "seen=1"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class TestTls:
    def server(self, authority: trustme.CA, name: str) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert(name).configure_cert(context)
        return context

    def network(self, authority: trustme.CA, *allow: str) -> Network:
        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.1"]

        context = ssl.create_default_context()
        authority.configure_trust(context)
        return Network(allow, resolve=resolve, ssl_context=context)

    async def test_the_certificate_is_that_of_the_name(
        self, tmp_path: Path, authority: trustme.CA
    ) -> None:
        network = self.network(authority, "files.example")
        seen: list[str] = []
        context = self.server(authority, "files.example")
        context.sni_callback = lambda conversation, name, _: seen.append(name)
        async with serving(always(), tls=context) as web:
            url = web.url("/a.pdf", host="files.example")
            done = await fetched(web, tmp_path / "file", network=network, url=url)
        assert done.path.stat().st_size == len(BODY)
        assert seen == ["files.example"]
        assert web.requests[0].headers["host"] == f"files.example:{web.port}"

    async def test_a_certificate_of_another_name_is_refused(
        self, tmp_path: Path, authority: trustme.CA
    ) -> None:
        network = self.network(authority, "files.example")
        async with serving(always(), tls=self.server(authority, "other.example")) as web:
            url = web.url("/a.pdf", host="files.example")
            with pytest.raises(DownloadRefused, match=r"files\.example has no valid certificate"):
                await fetched(web, tmp_path / "file", network=network, url=url)
        assert web.requests == []

    async def test_so_is_one_of_an_unknown_authority(
        self, tmp_path: Path, authority: trustme.CA
    ) -> None:
        async with serving(always(), tls=self.server(authority, "127.0.0.1")) as web:
            with pytest.raises(DownloadRefused, match="no valid certificate"):
                await fetched(web, tmp_path / "file")

    async def test_a_redirect_from_https_to_http_is_refused(
        self, tmp_path: Path, authority: trustme.CA
    ) -> None:
        network = self.network(authority, "files.example")

        async def answer(request: WebRequest) -> None:
            await request.redirect("http://files.example/")

        async with serving(answer, tls=self.server(authority, "files.example")) as web:
            url = web.url(host="files.example")
            with pytest.raises(DownloadRefused, match="redirects from https to http"):
                await fetched(web, tmp_path / "file", network=network, url=url)
