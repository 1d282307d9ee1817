"""Where LibreOffice works: a directory with a profile of its own, of which nothing is left."""

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

_BEGINNING = "libreoffice-"
#: Where it puts a socket by which a second one with the same profile would find it. Nothing can
#: tell it another place, and when it is killed the socket stays.
_SOCKETS = ("/tmp", "/var/tmp")  # nosec B108  # to tidy up there, not to write
#: What it does not escape when it writes a URL.
_PLAIN = "/!$&'()*+,-.:=@_~"


@contextlib.contextmanager
def opened_desk(into: str) -> Iterator[Path]:
    desk = Path(tempfile.mkdtemp(prefix=_BEGINNING, dir=into))
    try:
        yield desk
    finally:
        _clear(desk)


def clear_desks(into: str) -> None:
    """Those of processes that were killed, and could not do it themselves."""
    for desk in Path(into).glob(f"{_BEGINNING}*"):
        _clear(desk)


def profile_of(desk: Path) -> str:
    return (desk / "profile").resolve().as_uri()


def _clear(desk: Path) -> None:
    for directory in _SOCKETS:
        with contextlib.suppress(OSError):  # as a rule there is none
            os.unlink(f"{directory}/{_socket_of(desk)}")
    shutil.rmtree(desk, ignore_errors=True)


def _socket_of(desk: Path) -> str:
    url = "file://" + quote(str((desk / "profile").resolve()), safe=_PLAIN)
    digest = hashlib.md5(url.encode("utf-16-le"), usedforsecurity=False).digest()
    return f"OSL_PIPE_{os.getuid()}_SingleOfficeIPC_{''.join(f'{byte:x}' for byte in digest)}"
