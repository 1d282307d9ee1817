"""Resolves the source of a job to a local file: an upload, a URL, or a path below a root."""

import os
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..core.errors import DownloadRefused, InvalidParameters, NotFound
from ..core.file_types import safe_name
from ..network import DownloadLimits
from .uploads import Uploads

if TYPE_CHECKING:
    from ..network.client import Network

DEFAULT_LIMITS = DownloadLimits()


class SourceParameters(Protocol):
    """Parameters that name a source in one of these ways."""

    url: str | None
    file_path: str | None
    file_source: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """`name` is the original file name; `path` is the local file."""

    path: Path
    name: str


@dataclass(frozen=True)
class Sources:
    """Finds and downloads sources. Can be pickled and sent to a sandbox process."""

    data_directory: Path
    #: Where `file_path` may point to.
    roots: tuple[Path, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    limits: DownloadLimits = DEFAULT_LIMITS

    @cached_property
    def network(self) -> "Network":
        """Shared by all downloads of this process."""
        from ..network.client import Network  # most processes never download

        return Network(self.allow_hosts)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    async def fetch(self, parameters: SourceParameters, *, job_id: str, into: Path) -> SourceFile:
        """The source as a local file. Downloads go into the directory `into`."""
        kind, value = parse_source(parameters)
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
        """Download a URL to the file `target`."""
        from ..network.downloads import download

        result = await download(self.network, url, target, limits=self.limits)
        return SourceFile(result.path, result.file_name)

    def _local(self, text: str, job_id: str) -> SourceFile:
        """A file below one of the roots, after resolving links and `..`."""
        uploads = Uploads(self.data_directory).root
        for root in (*self.roots, uploads):
            path = _resolve(root, text) or _resolve(root, text.removeprefix("uploads/"))
            if path is not None and self._is_allowed(path, root, job_id):
                return SourceFile(path, safe_name(path.name))
        raise InvalidParameters("file_path: no such file in the directories that may be read")

    def _is_allowed(self, path: Path, root: Path, job_id: str) -> bool:
        """A root that contains the data directory gives no access to it: there are the store and
        the results and uploads of other users."""
        data, uploads = self.data_directory.resolve(), Uploads(self.data_directory).root.resolve()
        if path.is_relative_to(uploads):
            return _is_own(path, uploads, job_id)
        return not (path.is_relative_to(data) and data.is_relative_to(root.resolve()))


def source_url(parameters: SourceParameters) -> str | None:
    """The URL of the source if it has one."""
    kind, value = parse_source(parameters)
    return str(value) if kind == "url" else None


def parse_source(parameters: SourceParameters) -> tuple[str, Any]:
    """The kind of source (`upload`, `url` or `path`) and its value."""
    source = parameters.file_source
    if source is not None:
        value = source.get("path") or source.get("value")
        if source.get("type") == "upload" and source.get("name"):
            return "upload", source
        if value:
            return ("url" if source.get("type") == "url" else "path"), value
    if parameters.url:
        return "url", parameters.url
    if parameters.file_path:
        return "path", parameters.file_path
    raise InvalidParameters("A file or a url is needed")


def _resolve(root: Path, text: str) -> Path | None:
    """The file `text` below `root`; None if it does not exist or lies outside."""
    try:
        path = Path(os.path.realpath(root / text))
        return path if path.is_relative_to(root.resolve()) and path.is_file() else None
    except (ValueError, OSError):  # a NUL, a loop of links, a name that is too long
        return None


def _is_own(path: Path, uploads: Path, job_id: str) -> bool:
    """Directories named after a job belong to it; other files are shared."""
    first, *rest = path.relative_to(uploads).parts
    return not rest or not first.startswith("job-") or first == job_id
