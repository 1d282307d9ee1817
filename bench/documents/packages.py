"""Packages of Debian as files to read: fetched by their checksum, unpacked, never installed."""

import hashlib
import io
import shutil
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

#: The second keeps what the first has replaced by a newer version.
MIRRORS = (
)
LIMIT_S = 120
HEADER = 60


class Unavailable(Exception):
    """The package cannot be had here; the message says why."""


@dataclass(frozen=True)
class Package:
    #: The file's place in the pool: directories, name, version.
    place: str
    sha256: str

    @property
    def name(self) -> str:
        return PurePosixPath(self.place).name.split("_")[0]


def unpacked(package: Package, work: Path) -> Path:
    """The directory with the package's files, whatever version was there before."""
    directory = work / f"package-{package.name}-{package.sha256[:12]}"
    if not directory.exists():
        print(f"fetching {package.name} …", file=sys.stderr)
        content = _fetched(package)
        half = directory.with_suffix(".half")
        shutil.rmtree(half, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(_data(content))) as archive:
            # Links may lead out of the directory; none of the manuals is one.
            files = [member for member in archive if member.isfile()]
            archive.extractall(half, files, filter="data")
        half.rename(directory)
    return directory


def _fetched(package: Package) -> bytes:
    said = ""
    for mirror in MIRRORS:
        try:
            with urllib.request.urlopen(mirror + package.place, timeout=LIMIT_S) as answer:
                content: bytes = answer.read()
        except OSError as error:
            said = f"{package.name} cannot be fetched: {error}"
            continue
        if hashlib.sha256(content).hexdigest() == package.sha256:
            return content
        said = f"{package.name} is not the file that was listed"
    raise Unavailable(said)


def _data(package: bytes) -> bytes:
    for name, content in _members(package):
        if name.startswith("data.tar"):
            return content
    raise Unavailable("a package without data")


def _members(package: bytes) -> Iterator[tuple[str, bytes]]:
    """Of an archive of `ar`: headers of 60 bytes, contents padded to even lengths."""
    place = len(b"!<arch>\n")
    while place + HEADER <= len(package):
        name = package[place : place + 16].decode().strip().rstrip("/")
        size = int(package[place + 48 : place + 58])
        place += HEADER
        yield name, package[place : place + size]
        place += size + size % 2
