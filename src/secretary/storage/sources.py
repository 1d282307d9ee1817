"""Brings what a job is to work on to a local file: an upload, a URL, or a file under a root."""

import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..config import DownloadLimits
from ..core.errors import DownloadRefused, InvalidParameters, NotFound
from ..core.file_types import safe_name
from .uploads import Uploads

if TYPE_CHECKING:
    from ..network.client import Network

DEFAULT_LIMITS = DownloadLimits()


class Named(Protocol):
    """Parameters that name a source, in one of these ways."""

    url: str | None
    file_path: str | None
    file_source: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """`name` is what its owner calls it; `path` is where we have it."""

    path: Path
    name: str


@dataclass(frozen=True)
class Sources:
    """Plain values only, so that it can travel to a sandbox process."""

    data_directory: Path
    #: Where `file_path` may lead. Uploads are under the data directory and belong to their jobs.
    roots: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    limits: DownloadLimits = DEFAULT_LIMITS

    @cached_property
    def network(self) -> "Network":
        """The one that all downloads of this process share."""
        from ..network.client import Network  # most processes never download

        return Network(self.allow_hosts)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    async def fetch(self, named: Named, *, job_id: str, into: Path) -> SourceFile:
        """The source as a file; what is downloaded goes `into` a directory."""
        kind, value = named_source(named)
        match kind:
            case "upload":
                return self._upload(job_id, value)
            case "url":
                return await self.download(str(value), into / "download")
            case _:
                return self._local(str(value), job_id)

    def _upload(self, job_id: str, source: dict[str, Any]) -> SourceFile:
        try:
            path = Uploads(self.data_directory).path_of(job_id, source)
        except NotFound as error:
            raise DownloadRefused(str(error)) from None
        return SourceFile(path, path.name)

    async def download(self, url: str, target: Path) -> SourceFile:
        """The file at a URL, as the file `target`."""
        from ..network.downloads import download

        done = await download(self.network, url, target, limits=self.limits)
        return SourceFile(done.path, done.file_name)

    def _local(self, text: str, job_id: str) -> SourceFile:
        """A file under one of the roots. Links and `..` are followed first, so none leads out."""
        uploads = Uploads(self.data_directory).root
        for root in (*self.roots, uploads):
            path = _within(root, text) or _within(root, text.removeprefix("uploads/"))
            if path is not None and self._is_open(path, root, job_id):
                return SourceFile(path, safe_name(path.name))
        raise InvalidParameters("file_path: there is no such file where this service may read")

    def _is_open(self, path: Path, root: Path, job_id: str) -> bool:
        """A root round the data directory opens nothing in it: there are the store, and the
        results and uploads of others."""
        data, uploads = self.data_directory.resolve(), Uploads(self.data_directory).root.resolve()
        if path.is_relative_to(uploads):
            return _is_own(path, uploads, job_id)
        return not (path.is_relative_to(data) and data.is_relative_to(root.resolve()))


def url_of(named: Named) -> str | None:
    """The URL of the source, when it has one."""
    kind, value = named_source(named)
    return str(value) if kind == "url" else None


def named_source(named: Named) -> tuple[str, Any]:
    """`upload`, `url` or `path`, and which."""
    source = named.file_source
    if source is not None:
        value = source.get("path") or source.get("value")
        if source.get("type") == "upload" and source.get("name"):
            return "upload", source
        if value:
            return ("url" if source.get("type") == "url" else "path"), value
    if named.url:
        return "url", named.url
    if named.file_path:
        return "path", named.file_path
    raise InvalidParameters("A file or a url is needed")


def _within(root: Path, text: str) -> Path | None:
    """The file `text` below `root`, None when there is none or it leads elsewhere."""
    try:
        path = Path(os.path.realpath(root / text))
        return path if path.is_relative_to(root.resolve()) and path.is_file() else None
    except (ValueError, OSError):  # a NUL, a loop of links, a name that is too long
        return None


def _is_own(path: Path, uploads: Path, job_id: str) -> bool:
    """Whose upload it is says the directory; a file beside those is everybody's."""
    first, *rest = path.relative_to(uploads).parts
    return not rest or not first.startswith("job-") or first == job_id
