"""Packages of Debian as files to read: fetched by their checksum, unpacked, never installed."""

import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

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
    """By apt, from wherever this machine has its packages."""
    if shutil.which("apt-get") is None:
        raise Unavailable(f"{package.name} cannot be fetched: there is no apt-get here")
    with tempfile.TemporaryDirectory() as directory:
        try:
            subprocess.run(
                ["apt-get", "download", "--quiet", package.name],
                cwd=directory,
                check=True,
                timeout=LIMIT_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            text = f"{package.name} cannot be fetched: perhaps 'apt-get update' helps"
            raise Unavailable(text) from None
        (file,) = Path(directory).glob("*.deb")
        content = file.read_bytes()
    if hashlib.sha256(content).hexdigest() != package.sha256:
        raise Unavailable(f"{package.name} is there in another version than the one listed")
    return content


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
