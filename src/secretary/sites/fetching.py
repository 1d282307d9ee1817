"""Fetches a recording from a page or a video site with yt-dlp, behind a gateway."""

import asyncio
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import httpx

from ..download_limits import MEBIBYTE
from ..errors import AddressRefused, DownloadFailed, JobFailed
from ..fetch import OnProgress
from ..network.client import Network
from ..network.gateway import Gateway, opened_gateway
from . import metadata, program
from .media import SiteMedia, SiteRequest, SiteSubtitles
from .refusals import reason, unknown
from .running import Ran, run

#: Pages, scripts and what encryption adds, beside the recording itself.
_BESIDE_BYTES = 16 * MEBIBYTE
_BESIDE_SHARE = 20
#: In an address, orders to yt-dlp itself.
_SMUGGLED = "__youtubedl_smuggle"
_UNFINISHED = {".part", ".ytdl", ".temp", ".json", ".vtt"}


async def fetch_from_site(
    request: SiteRequest,
    on_progress: OnProgress | None = None,
    network: Network | None = None,
) -> SiteMedia:
    """
    To be run in a sandbox process: that ends yt-dlp, and what it started, on cancellation and on
    the death of the worker alike, watches their memory, and keeps the bytes of a recording, which
    all pass through the gateway, off the worker's own loop.
    """
    network = network or Network(request.allow_hosts)
    network.check(request.url)
    host = httpx.URL(request.url).host
    if _SMUGGLED in unquote(unquote(request.url)):
        raise AddressRefused(f"The URL of {host} is not one of the web", host=host)
    command = program.found()
    directory = request.into / "site"
    shutil.rmtree(directory, ignore_errors=True)  # of an attempt that was cut off
    directory.mkdir(parents=True)
    seconds = request.limits.total.total_seconds()
    most = request.limits.max_bytes
    try:
        async with (
            asyncio.timeout(seconds) as limit,
            opened_gateway(
                network,
                max_bytes=most + most // _BESIDE_SHARE + _BESIDE_BYTES,
                idle=request.limits.idle,
            ) as gateway,
        ):
            return await _Visit(request, host, command, directory, gateway, on_progress).make()
    except TimeoutError:
        if not limit.expired():
            raise
        text = f"The download from {host} took longer than {seconds:g} s"
        raise DownloadFailed(text, host=host) from None


@dataclass
class _Visit:
    """One visit to a site: a look at what there is, then the download of it."""

    request: SiteRequest
    host: str
    command: Sequence[str]
    directory: Path
    gateway: Gateway
    on_progress: OnProgress | None
    _files: "_Files" = field(init=False)

    async def make(self) -> SiteMedia:
        info = await self._look()
        metadata.refuse(info, self.request, self.host)
        languages, automatic = metadata.subtitles_wanted(info, self.request)
        self._files = _Files(metadata.sizes(info)[1] or None)
        ran = await self._download(program.subtitle_options(languages, automatic=automatic))
        if ran.code and languages and self.gateway.refused is None:
            ran = await self._download({})  # better without them than not at all
        path = await self._found(ran)
        subtitles = [
            SiteSubtitles(language=language, path=file)
            for language in languages
            if _is_file(file := self.directory / f"{program.NAME}.{language}.vtt")
        ]
        return metadata.described(info, path, subtitles, self.request)

    async def _look(self) -> metadata.Info:
        look = {"--dump-single-json": None, "--skip-download": None}
        with self._info_file.open("xb") as output:
            ran = await self._run(self._options | look, self.request.url, output=output)
        if ran.code or not self._info_file.stat().st_size:
            raise await self._failure(ran)
        info = await asyncio.to_thread(metadata.read, self._info_file, self.host)
        # What is fetched is what was looked at, and not what the page says when asked again.
        kept = {name: value for name, value in info.items() if name != "webpage_url"}
        await asyncio.to_thread(self._info_file.write_text, json.dumps(kept), encoding="utf-8")
        return info

    async def _download(self, subtitles: program.Options) -> Ran:
        known = {"--load-info-json": str(self._info_file)}
        more = {**subtitles, **program.progress_options(), **known}
        return await self._run(self._options | more, on_line=self._notice)

    @property
    def _info_file(self) -> Path:
        return self.directory / "info.json"

    @property
    def _options(self) -> dict[str, str | None]:
        request = self.request
        return program.options(self.directory, self.gateway.url, request.want, request.limits)

    async def _run(self, options: program.Options, url: str = "", **more: object) -> Ran:
        """Until it ends by itself, or the gateway has let through all that it may."""
        running = asyncio.create_task(
            run(
                self.command,
                program.told(options, url),
                directory=self.directory,
                proxy=self.gateway.url,
                port=self.gateway.port,
                **more,  # type: ignore[arg-type]
            )
        )
        used_up = asyncio.create_task(self.gateway.used_up.wait())
        try:
            await asyncio.wait([running, used_up], return_when=asyncio.FIRST_COMPLETED)
            if self.gateway.used_up.is_set():
                raise metadata.too_large(self.request, self.host)
            return running.result()
        finally:
            for task in (running, used_up):
                task.cancel()
            await asyncio.gather(running, used_up, return_exceptions=True)

    def _notice(self, line: str) -> None:
        if self._files.notice(line) and self.on_progress is not None:
            self.on_progress(self._files.done, self._files.total)

    async def _found(self, ran: Ran) -> Path:
        """The file, when there is one and nothing went wrong."""
        if "max-filesize" in ran.said:
            raise metadata.too_large(self.request, self.host)
        files = [
            path
            for path in self.directory.iterdir()
            if path.stem == program.NAME and path.suffix not in _UNFINISHED and _is_file(path)
        ]
        # Without the piece that was refused there may still be a file, with a hole in it.
        is_whole = not ran.code and self.gateway.refused is None and len(files) == 1
        if not is_whole or not files[0].stat().st_size:
            raise await self._failure(ran)
        if files[0].stat().st_size > self.request.limits.max_bytes:
            raise metadata.too_large(self.request, self.host)
        return files[0]

    async def _failure(self, ran: Ran) -> JobFailed:
        """Where the gateway refused an address, that is the reason for all that followed."""
        if self.gateway.refused is not None:
            return self.gateway.refused
        found = reason(ran.complained, self.host, hidden=str(self.directory))
        if found is not None:
            return found
        version = (await self._run({"--version": None})).said.strip()
        return unknown(ran.complained, self.host, hidden=str(self.directory), version=version)


@dataclass
class _Files:
    """How far the files have come that are fetched one after the other."""

    expected: int | None
    _before: int = 0
    _now: int = 0
    _now_total: int = 0

    def notice(self, line: str) -> bool:
        match = re.search(rf"{program.PROGRESS} (\w+) (\d+) ([\d.]+|NA)\s*$", line)
        if match is None:
            return False
        self._now = int(match[2])
        self._now_total = 0 if match[3] == "NA" else int(float(match[3]))
        if match[1] == "finished":
            self._before += self._now
            self._now = self._now_total = 0
        return True

    @property
    def done(self) -> int:
        return self._before + self._now

    @property
    def total(self) -> int | None:
        if self._now and not self._now_total:
            return max(self.expected, self.done) if self.expected else None
        return max(self._before + self._now_total, self.expected or 0) or None


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
