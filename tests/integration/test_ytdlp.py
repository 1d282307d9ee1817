"""The real yt-dlp on pages of a server on loopback. No external site is contacted."""

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import httpcore
import pytest
import trustme

from secretary.core import fence, processes
from secretary.core.errors import (
    AddressRefused,
    DownloadFailed,
    DownloadRefused,
    EngineUnavailable,
    FileTooLarge,
    JobFailed,
    UnsupportedFile,
)
from secretary.media.ytdlp.fetch import fetch_from_site, fetch_in_sandbox, fetch_media
from secretary.media.ytdlp.metadata import SiteMedia, SiteRequest
from secretary.network import DownloadLimits
from secretary.network.client import Network, connect_tcp
from secretary.storage.sources import SourceFile
from secretary.worker.sandbox import Limits, Sandbox
from tests.web_server import Answer, Web, WebRequest, serving
from tests.ytdlp_media import SECONDS, make_site, seconds_of, streams_of

LIMITS = DownloadLimits(
    max_bytes=5_000_000, total=timedelta(seconds=60), idle=timedelta(seconds=10)
)
TYPES = {
    ".html": "text/html",
    ".m3u8": "application/vnd.apple.mpegurl",
    ".mp4": "video/mp4",
    ".mpd": "application/dash+xml",
    ".vtt": "text/vtt",
}
VTT = b"WEBVTT\n\n00:00.000 --> 00:02.000\nHello\n"
MARK = "test-of-sites"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return make_site(tmp_path_factory.mktemp("site"))


def page(body: str, head: str = "") -> bytes:
    return f"<html><head><title>A talk</title>{head}</head><body>{body}</body></html>".encode()


def site(files: dict[str, bytes], **pages: bytes) -> Answer:
    """A site with these files, and pages by their names. HOST in them is the site's own address."""
    files = files | {f"/{name}.html": content for name, content in pages.items()}

    async def answer(request: WebRequest) -> None:
        path = request.target.partition("?")[0]
        if path not in files:
            return await request.answer(status="404 Not Found")
        kind = TYPES.get(Path(path).suffix, "application/octet-stream")
        host = request.headers["host"].encode()
        content = files[path].replace(b"HOST", host) if kind == "text/html" else files[path]
        await request.answer(content, headers={"Content-Type": kind})

    return answer


def site_request(web: Web, into: Path, path: str = "/talk.html", **more: Any) -> SiteRequest:
    given: dict[str, Any] = {"allow_hosts": (web.host,), "limits": LIMITS, **more}
    return SiteRequest(url=given.pop("url", None) or web.url(path), directory=into, **given)


@asynccontextmanager
async def refusing(answer: Answer, into: Path, **more: Any) -> AsyncIterator[list[JobFailed]]:
    """The error of a download that must fail."""
    caught: list[JobFailed] = []
    async with serving(answer) as web:
        with pytest.raises(JobFailed) as error:
            await fetch_from_site(site_request(web, into, **more))
        assert str(into) not in f"{error.value.message} {error.value.details}"
        caught.append(error.value)
        yield caught


async def refusal(answer: Answer, into: Path, **more: Any) -> JobFailed:
    async with refusing(answer, into, **more) as [error]:
        return error


class TestWhatComes:
    async def test_a_film_on_a_page_with_its_subtitles(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        film = (
            '<video src="/film.mp4"><track kind="subtitles" srclang="en" src="/en.vtt">'
            '<track kind="subtitles" srclang="../x" src="/en.vtt"></video>'
        )
        reported: list[tuple[int, int | None]] = []
        async with serving(site(files | {"/en.vtt": VTT}, talk=page(film))) as web:
            request = site_request(web, tmp_path)
            media = await fetch_from_site(request, lambda *progress: reported.append(progress))
        assert media == SiteMedia(
            path=tmp_path / "site" / "media.mp4",
            page_url=web.url("/talk.html"),
            site="HTML5MediaEmbed",
            title="A talk",
            subtitles={"en": tmp_path / "site" / "media.en.vtt"},
        )
        assert media.path.read_bytes() == files["/film.mp4"]
        assert media.subtitles["en"].read_bytes().startswith(b"WEBVTT")
        size = len(VTT) + len(files["/film.mp4"])
        assert reported[-1] == (size, size)
        assert reported == sorted(reported)

    async def test_what_the_page_says_of_the_film(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        html = """<script type="application/ld+json">{"@context": "https://schema.org",
            "@type": "VideoObject", "name": "Of boats", "description": "All about them",
            "contentUrl": "http://HOST/film.mp4", "uploadDate": "2024-05-06", "duration": "PT3S",
            "author": {"@type": "Person", "name": "Ann"}}</script>"""
        async with serving(site(files, talk=page("", html))) as web:
            media = await fetch_from_site(site_request(web, tmp_path))
        assert (media.title, media.description) == ("Of boats", "All about them")
        assert media.uploaded_on == date(2024, 5, 6)

    async def test_pieces_by_hls(self, tmp_path: Path, files: dict[str, bytes]) -> None:
        film = page('<video><source src="/hls/film.m3u8" type="application/x-mpegURL"></video>')
        async with serving(site(files, talk=film)) as web:
            media = await fetch_from_site(site_request(web, tmp_path))
        assert seconds_of(media.path) == pytest.approx(SECONDS, abs=0.3)
        assert streams_of(media.path) == {"Video", "Audio"}

    async def test_pieces_by_dash_put_together_from_picture_and_sound(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        async with serving(site(files)) as web:
            media = await fetch_from_site(site_request(web, tmp_path, "/dash/film.mpd"))
        assert seconds_of(media.path) == pytest.approx(SECONDS, abs=0.3)
        assert streams_of(media.path) == {"Video", "Audio"}

    async def test_the_sound_alone_where_no_more_is_wanted(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        async with serving(site(files)) as web:
            media = await fetch_from_site(
                site_request(web, tmp_path, "/dash/film.mpd", kind="audio")
            )
        assert streams_of(media.path) == {"Audio"}
        assert not [incoming for incoming in web.requests if "stream0" in incoming.target]

    async def test_a_film_by_https(
        self, tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        authority, server = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(server)
        answer = site(files, talk=page('<video src="/film.mp4"></video>'))
        async with serving(answer, server) as web:
            with pytest.raises(DownloadFailed) as caught:
                await fetch_from_site(site_request(web, tmp_path))
            assert caught.value.message == "The connection to 127.0.0.1 failed"
            authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
            monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
            media = await fetch_from_site(site_request(web, tmp_path))
        assert media.path.read_bytes() == files["/film.mp4"]

    async def test_a_film_without_the_subtitles_that_are_gone(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        film = (
            '<video src="/film.mp4"><track kind="subtitles" srclang="en" src="/gone.vtt"></video>'
        )
        async with serving(site(files, talk=page(film))) as web:
            assert (await fetch_from_site(site_request(web, tmp_path))).subtitles == {}


def left_to_ffmpeg(files: dict[str, bytes], host: str) -> bytes:
    lines = files["/hls/film.m3u8"].decode().replace("piece2", f"http://{host}/hls/piece2")
    key = '#EXT-X-KEY:METHOD=SAMPLE-AES,URI="/hls/piece0.ts"'
    return lines.replace("#EXTINF", f"{key}\n#EXTINF", 1).encode()


class TestWhereItGoes:
    """Only through the egress proxy, whatever a page says."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        return ["10.0.0.7"] if host == "inside.example" else ["93.184.216.34"]

    def network(self, web: Web) -> Network:
        """A network of names that only exist here; `web` plays the public address."""

        async def connect(address: str, port: int, s: float) -> httpcore.AsyncNetworkStream:
            assert address == "93.184.216.34"
            return await connect_tcp("127.0.0.1", web.port, s)

        return Network(resolve=self.resolve, connect=connect)

    async def test_every_request_goes_through_the_egress_proxy(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        film = page('<video src="http://media.example/film.mp4"></video>')
        async with serving(site(files, talk=film)) as web:
            request = site_request(
                web, tmp_path, url="http://site.example/talk.html", allow_hosts=()
            )
            media = await fetch_from_site(request, network=self.network(web))
        assert media.path.read_bytes() == files["/film.mp4"]
        assert [incoming.headers["host"] for incoming in web.requests] == [
            "site.example",
            "media.example",
        ]
        assert not any("proxy-authorization" in incoming.headers for incoming in web.requests)

    async def test_even_those_of_ffmpeg(self, tmp_path: Path, files: dict[str, bytes]) -> None:
        """Segments in an encryption that yt-dlp leaves to ffmpeg."""
        answer = site(files | {"/list.m3u8": left_to_ffmpeg(files, "media.example")})
        async with serving(answer) as web:
            request = site_request(
                web, tmp_path, url="http://site.example/list.m3u8", allow_hosts=()
            )
            await fetch_from_site(request, network=self.network(web))
        of_ffmpeg = [incoming for incoming in web.requests if "icy-metadata" in incoming.headers]
        hosts = {incoming.headers["host"] for incoming in of_ffmpeg}
        assert hosts == {"site.example", "media.example"}

    async def test_ffmpeg_gets_nowhere_else_either(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        answer = site(files | {"/list.m3u8": left_to_ffmpeg(files, "inside.example")})
        async with serving(answer) as web:
            request = site_request(
                web, tmp_path, url="http://site.example/list.m3u8", allow_hosts=()
            )
            with pytest.raises(AddressRefused) as caught:
                await fetch_from_site(request, network=self.network(web))
        assert caught.value.details["host"] == "inside.example"

    @pytest.mark.parametrize(
        "target",
        ["http://127.0.0.1:{0}/x", "http://[::1]:{0}/x",
         "http://169.254.169.254/latest/meta-data", "http://inside.example/x"],
    )  # fmt: skip
    async def test_a_redirect_to_a_private_address_is_refused(
        self, tmp_path: Path, files: dict[str, bytes], target: str
    ) -> None:
        async with serving(site(files)) as inside:

            async def answer(request: WebRequest) -> None:
                await request.redirect(target.format(inside.port))

            async with serving(answer) as web:
                request = site_request(web, tmp_path, url="http://site.example/talk.html")
                with pytest.raises(AddressRefused):
                    await fetch_from_site(request, network=self.network(web))
            assert inside.connections == 0

    @pytest.mark.parametrize(
        "film",
        [
            '<video src="http://127.0.0.1:{0}/film.mp4"></video>',
            '<video src="http://[::1]:{0}/film.mp4"></video>',
            '<video><source src="/list.m3u8" type="application/x-mpegURL"></video>',
        ],
    )
    async def test_a_page_that_leads_to_a_private_address_gets_nothing(
        self, tmp_path: Path, files: dict[str, bytes], film: str
    ) -> None:
        async with serving(site(files)) as inside:
            lines = files["/hls/film.m3u8"].decode()
            hostile = lines.replace("piece", f"http://127.0.0.1:{inside.port}/hls/piece").encode()
            talk = page(film.format(inside.port))
            answer = site(files | {"/list.m3u8": hostile}, talk=talk)
            error = await refusal(answer, tmp_path)
            assert isinstance(error, AddressRefused)
            assert inside.connections == 0

    @pytest.mark.parametrize("uri", ["file:///etc/passwd", "concat:a|b"])
    async def test_a_list_that_names_files_gets_none(
        self, tmp_path: Path, files: dict[str, bytes], uri: str
    ) -> None:
        hostile = f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{uri}\n#EXT-X-ENDLIST\n"
        answer = site({"/list.m3u8": hostile.encode()})
        await refusal(answer, tmp_path, path="/list.m3u8")
        made = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        assert not [content for content in made if b"root:" in content]

    @pytest.mark.parametrize(
        "url",
        ["ytsearch:boats", "file:///etc/passwd", "ftp://example.org/a", "http://ann:x@example.org/",
         "http://example.org/#__youtubedl_smuggle=%7B%22a%22%3A1%7D",
         "http://example.org/#%5F_youtubedl_smuggle=%7B%22a%22%3A1%7D", "http://10.0.0.1/"],
    )  # fmt: skip
    async def test_addresses_that_are_not_of_the_web_are_not_even_tried(
        self, tmp_path: Path, url: str
    ) -> None:
        with pytest.raises(AddressRefused):
            await fetch_from_site(SiteRequest(url=url, directory=tmp_path, limits=LIMITS))
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="only Linux has Landlock")
    async def test_the_sandbox_allows_connections_to_the_egress_proxy_only(
        self, tmp_path: Path
    ) -> None:
        async def hello(request: WebRequest) -> None:
            await request.answer(b"hello")

        tries = (
            "import socket, sys\n"
            "for port in sys.argv[1:]:\n"
            "    try: socket.create_connection(('127.0.0.1', int(port))); print('through')\n"
            "    except PermissionError: print('kept')\n"
            "for name in ('inside', '../outside'):\n"
            "    try: open(name, 'w'); print('written')\n"
            "    except PermissionError: print('kept')\n"
        )
        (tmp_path / "work").mkdir()
        async with serving(hello) as gateway, serving(hello) as other:
            ports = [str(gateway.port), str(other.port)]
            command = [
                sys.executable,
                "-I",
                "-S",
                fence.__file__,
                json.dumps({"port": gateway.port, "writes": [str(tmp_path / "work")]}),
            ]
            process = await asyncio.create_subprocess_exec(
                *command, sys.executable, "-c", tries, *ports,
                cwd=tmp_path / "work", stdout=subprocess.PIPE,
            )  # fmt: skip
            output, _ = await process.communicate()
        words = output.decode().split()
        if words[1] == words[3] == "through":
            pytest.skip("this kernel has no Landlock")
        assert words == ["through", "kept", "written", "kept"]


class TestWhatIsTooMuch:
    async def test_a_film_that_says_it_is_too_long(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        html = """<script type="application/ld+json">{"@context": "https://schema.org",
            "@type": "VideoObject", "name": "x", "contentUrl": "http://HOST/film.mp4",
            "duration": "PT5H"}</script>"""
        error = await refusal(
            site(files, talk=page("", html)), tmp_path, max_duration=timedelta(hours=4)
        )
        assert isinstance(error, FileTooLarge)
        assert error.message == "The recording at 127.0.0.1 is 18000 s long; the limit is 14400 s"

    async def test_a_film_that_is_announced_larger_than_allowed(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        answer = site(files, talk=page('<video src="/film.mp4"></video>'))
        limits = replace(LIMITS, max_bytes=len(files["/film.mp4"]) - 1)
        assert isinstance(await refusal(answer, tmp_path, limits=limits), FileTooLarge)

    async def test_pieces_that_together_are_larger_than_allowed(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        limits = replace(LIMITS, max_bytes=20_000)
        error = await refusal(site(files), tmp_path, path="/hls/film.m3u8", limits=limits)
        assert isinstance(error, FileTooLarge)

    async def test_a_film_that_never_ends(self, tmp_path: Path, files: dict[str, bytes]) -> None:
        async def answer(request: WebRequest) -> None:
            if request.target == "/talk.html":
                return await site(files, talk=page('<video src="/film.mp4"></video>'))(request)
            await request.send(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
            while True:
                await request.send(bytes(100_000))

        error = await refusal(answer, tmp_path, limits=replace(LIMITS, max_bytes=1_000_000))
        assert isinstance(error, FileTooLarge)
        fetched_bytes = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
        assert fetched_bytes < 20_000_000

    @pytest.mark.parametrize("slow", ["/talk.html", "/film.mp4"])
    async def test_an_answer_that_trickles_in_is_not_waited_for(
        self,
        tmp_path: Path,
        files: dict[str, bytes],
        slow: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        async def answer(request: WebRequest) -> None:
            if request.target != slow:
                return await site(files, talk=page('<video src="/film.mp4"></video>'))(request)
            await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                await request.send(b"x")
                await asyncio.sleep(0.1)

        monkeypatch.setenv(processes.SANDBOX_VARIABLE, MARK)
        limits = replace(LIMITS, total=timedelta(seconds=4))
        error = await refusal(answer, tmp_path, limits=limits)
        assert error.message == "The download from 127.0.0.1 took longer than 4 s"
        assert error.retryable
        assert processes.processes_with_token(MARK) == []

    async def test_a_transmission_that_is_live(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        live = files["/dash/film.mpd"].replace(b'type="static"', b'type="dynamic"')
        error = await refusal(site(files | {"/live.mpd": live}), tmp_path, path="/live.mpd")
        assert type(error) is DownloadRefused
        assert error.message.startswith("The recording at 127.0.0.1 is a live stream")


class TestWhatIsNotThere:
    async def test_a_page_without_a_recording(self, tmp_path: Path) -> None:
        error = await refusal(site({}, talk=page("Just words")), tmp_path)
        assert type(error) is UnsupportedFile
        assert error.message == "No playable media was found at 127.0.0.1"

    async def test_a_page_with_several(self, tmp_path: Path, files: dict[str, bytes]) -> None:
        films = page('<video src="/film.mp4"></video><video src="/film.mp4?2"></video>')
        error = await refusal(site(files, talk=films), tmp_path)
        assert "has several recordings" in error.message

    @pytest.mark.parametrize(
        ("status", "kind", "retryable"),
        [
            ("404 Not Found", DownloadRefused, False),
            ("503 Service Unavailable", DownloadFailed, True),
        ],
    )
    async def test_a_site_that_says_no(
        self, tmp_path: Path, status: str, kind: type[JobFailed], retryable: bool
    ) -> None:
        async def answer(request: WebRequest) -> None:
            await request.answer(status=status)

        error = await refusal(answer, tmp_path)
        assert (type(error), error.retryable) == (kind, retryable)

    async def test_a_program_that_is_not_installed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", [])
        monkeypatch.setenv("PATH", str(tmp_path))
        error = await refusal(site({}), tmp_path / "into")
        assert type(error) is EngineUnavailable
        assert "pip install 'secretary[sites]'" in error.message

    async def test_a_program_that_is_too_old(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        program = tmp_path / "yt-dlp"
        program.write_text("#!/bin/sh\necho 'yt-dlp: error: no such option: --xff' >&2\nexit 2\n")
        program.chmod(0o755)
        monkeypatch.setattr(sys, "path", [])
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        error = await refusal(site({}), tmp_path / "into")
        assert type(error) is EngineUnavailable
        assert "too old" in error.message


def endless_film(files: dict[str, bytes], begun: asyncio.Event) -> Answer:
    async def answer(request: WebRequest) -> None:
        if request.target == "/talk.html":
            return await site(files, talk=page('<video src="/film.mp4"></video>'))(request)
        await request.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nbegin")
        begun.set()
        await asyncio.sleep(60)

    return answer


class TestWhenItIsStopped:
    async def test_nobody_is_left_and_nobody_else_could_read_the_secret(
        self, tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(processes.SANDBOX_VARIABLE, MARK)
        begun = asyncio.Event()
        async with serving(endless_film(files, begun)) as web:
            work = asyncio.create_task(fetch_from_site(site_request(web, tmp_path)))
            await asyncio.wait_for(begun.wait(), 60)
            at_work = processes.processes_with_token(MARK)
            assert at_work
            for process in at_work:
                line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
                assert b"secretary:" not in line
                assert b"talk.html" not in line
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
        assert processes.processes_with_token(MARK) == []

    async def test_nobody_is_left_when_its_sandbox_call_is_cancelled(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        begun = asyncio.Event()
        sandbox = Sandbox(1, limits=Limits(wall_time=timedelta(seconds=60)))
        await sandbox.open()
        try:
            async with serving(endless_film(files, begun)) as web:
                work = asyncio.create_task(
                    sandbox.run(fetch_in_sandbox, site_request(web, tmp_path))
                )
                await asyncio.wait_for(begun.wait(), 60)
                [child] = sandbox.processes
                assert processes.descendants(child)
                work.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await work
                assert not processes.descendants(child)
        finally:
            await sandbox.close()

    async def test_nobody_is_left_when_the_worker_is_killed(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        begun = asyncio.Event()
        async with serving(endless_film(files, begun)) as web:
            work = [sys.executable, "-c", WORKER, web.url("/talk.html"), web.host, str(tmp_path)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            worker = await asyncio.create_subprocess_exec(*work, env=environment)
            try:
                await asyncio.wait_for(begun.wait(), 60)
                at_work = processes.descendants(worker.pid)
                assert len(at_work) > 2  # the watchdog, the child of the sandbox, yt-dlp
            finally:
                worker.kill()
                await worker.wait()
            async with asyncio.timeout(20):
                while any(processes.is_alive(p.pid, p.started) for p in at_work):
                    await asyncio.sleep(0.05)


WORKER = """
import asyncio, sys
from pathlib import Path
from secretary.worker.sandbox import Sandbox
from secretary.media.ytdlp.fetch import fetch_in_sandbox
from secretary.media.ytdlp.metadata import SiteRequest

async def main(url, host, into):
    sandbox = Sandbox(1)
    await sandbox.open()
    await sandbox.run(
        fetch_in_sandbox, SiteRequest(url=url, directory=Path(into), allow_hosts=(host,))
    )

asyncio.run(main(*sys.argv[1:]))
"""


class TestHowItIsChosen:
    @asynccontextmanager
    async def choosing(self) -> AsyncIterator[Callable[..., Any]]:
        sandbox = Sandbox(1)
        await sandbox.open()

        async def run(function: Callable[..., Any], *args: Any, wall_time: timedelta) -> Any:
            return await sandbox.run(function, *args, limits=Limits(wall_time=wall_time))

        try:
            yield run
        finally:
            await sandbox.close()

    async def test_a_file_is_fetched_as_it_is(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        async with serving(site(files)) as web, self.choosing() as run:
            source = await fetch_media(
                site_request(web, tmp_path, "/film.mp4"), run, Network([web.host])
            )
        assert source == SourceFile(tmp_path / "download", "film.mp4")
        assert len(web.requests) == 1

    @pytest.mark.parametrize("path", ["/talk.html", "/hls/film.m3u8", "/dash/film.mpd?a=b"])
    async def test_pages_and_lists_are_for_the_program(
        self, tmp_path: Path, files: dict[str, bytes], path: str
    ) -> None:
        reported: list[tuple[int, int | None]] = []
        answer = site(files, talk=page('<video src="/film.mp4"></video>'))
        async with serving(answer) as web, self.choosing() as run:
            request = site_request(web, tmp_path, path)
            media = await fetch_media(
                request, run, Network([web.host]), lambda *progress: reported.append(progress)
            )
        assert isinstance(media, SiteMedia)
        assert seconds_of(media.path) == pytest.approx(SECONDS, abs=0.3)
        assert reported

    async def test_a_site_that_talks_to_browsers_only(
        self, tmp_path: Path, files: dict[str, bytes]
    ) -> None:
        async def answer(request: WebRequest) -> None:
            if "Mozilla" not in request.headers["user-agent"]:
                return await request.answer(status="403 Forbidden")
            await site(files, talk=page('<video src="/film.mp4"></video>'))(request)

        async with serving(answer) as web, self.choosing() as run:
            media = await fetch_media(site_request(web, tmp_path), run, Network([web.host]))
            assert isinstance(media, SiteMedia)

    async def test_a_file_that_is_gone_is_gone(self, tmp_path: Path) -> None:
        async with serving(site({})) as web, self.choosing() as run:
            with pytest.raises(DownloadRefused) as caught:
                await fetch_media(
                    site_request(web, tmp_path, "/gone.mp4"), run, Network([web.host])
                )
        assert caught.value.message == "127.0.0.1 answered 404 Not Found"
        assert len(web.requests) == 1
