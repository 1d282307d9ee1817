"""Converts office files to PDF with LibreOffice, isolated in its own process and profile."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...core import errors
from ...core.files import detect_file_type
from ...core.processes import inherited_environment, running_program
from .containers import detect_ole_type, open_archive
from .text import decode_text, detect_delimiter, read_limited

MAX_EXPANDED_BYTES = 1024 * 1024 * 1024
_PREFIX = "libreoffice-"
#: LibreOffice creates a socket here to find another instance with the same profile. The location
#: is not configurable, and when LibreOffice is killed the socket remains.
_SOCKETS = ("/tmp", "/var/tmp")  # nosec B108  # only to clean up
#: Characters that LibreOffice does not escape in URLs.
_UNESCAPED = "/!$&'()*+,-.:=@_~"
_MAC = "/Applications/LibreOffice.app/Contents/MacOS/soffice"
_MISSING = (
    "LibreOffice is not installed: install libreoffice-impress-nogui, libreoffice-writer-nogui"
    " and libreoffice-calc-nogui"
)
#: Import filters by format. Without one, LibreOffice reads garbage as text.
_FILTERS = {
    "docx": "MS Word 2007 XML",
    "xlsx": "Calc MS Excel 2007 XML",
    "pptx": "Impress MS PowerPoint 2007 XML",
    "odt": "writer8",
    "ods": "calc8",
    "odp": "impress8",
    "rtf": "Rich Text Format",
    "html": "HTML (StarWriter)",
    "text": "Text (encoded):UTF8",
    "csv": "Text - txt - csv (StarCalc):{},34,76,1",
    "doc": "MS Word 97",
    "xls": "MS Excel 97",
    "ppt": "MS PowerPoint 97",
}
_TEXTS = {"text", "csv"}
_ZIPPED = {"docx", "xlsx", "pptx", "odt", "ods", "odp"}
#: Bytes at the end of a PDF that contain the end marker of a complete file.
_END_WITHIN = 1024
#: Nobody listens here: the proxy for everything that tries to reach the network.
_BLACKHOLE_HOST = "127.0.0.1"
_BLACKHOLE_PORT = "9"
#: No macros, no links, no updates.
_SETTINGS: tuple[tuple[str, str, str], ...] = (
    ("org.openoffice.Office.Common/Security/Scripting", "MacroSecurityLevel", "3"),
    ("org.openoffice.Office.Common/Security/Scripting", "DisableMacrosExecution", "true"),
    ("org.openoffice.Office.Common/Security/Scripting", "DisableActiveContent", "true"),
    ("org.openoffice.Office.Common/Security/Scripting", "BlockUntrustedRefererLinks", "true"),
    ("org.openoffice.Office.Common/Misc", "UseLocking", "false"),
    ("org.openoffice.Office.Common/Misc", "UseDocumentOOoLockFile", "false"),
    ("org.openoffice.Office.Common/Save/Document", "AutoSave", "false"),
    ("org.openoffice.Office.Recovery/AutoSave", "Enabled", "false"),
    ("org.openoffice.Office.Writer/Content/Update", "Link", "2"),
    ("org.openoffice.Office.Calc/Content/Update", "Link", "2"),
    ("org.openoffice.Inet/Settings", "ooInetProxyType", "2"),
    ("org.openoffice.Inet/Settings", "ooInetHTTPProxyName", _BLACKHOLE_HOST),
    ("org.openoffice.Inet/Settings", "ooInetHTTPProxyPort", _BLACKHOLE_PORT),
    ("org.openoffice.Inet/Settings", "ooInetHTTPSProxyName", _BLACKHOLE_HOST),
    ("org.openoffice.Inet/Settings", "ooInetHTTPSProxyPort", _BLACKHOLE_PORT),
    ("org.openoffice.Inet/Settings", "ooInetNoProxy", ""),
)


def convert_to_pdf(path: str, kind: str, target_directory: str, *, timeout_s: float) -> str:
    """Convert a file and return the path of the PDF in `into`. Nothing else remains there."""
    program = shutil.which("soffice") or shutil.which("libreoffice") or shutil.which(_MAC)
    if program is None:
        raise errors.EngineUnavailable(_MISSING)
    kind = _check_type(path, kind)
    work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=target_directory))
    try:
        # A copy, so that LibreOffice sees neither the name nor the directory of the original.
        source = work / f"document.{'txt' if kind == 'text' else kind}"
        if kind in _TEXTS:
            source.write_text(decode_text(read_limited(path)), encoding="utf-8")
        else:
            shutil.copyfile(path, source)
        _write_profile(work / "profile" / "user")
        (work / "tmp").mkdir()
        code = _run(_command(program, kind, source, work), work, timeout_s)
        pdf = work / "out" / "document.pdf"
        if not _is_pdf(pdf):
            if code:
                raise errors.WorkerCrashed("LibreOffice crashed while converting the document")
            text = "LibreOffice cannot read the document: it is damaged or needs a password"
            raise errors.FileCorrupt(text)
        target = Path(target_directory) / "document.pdf"
        os.replace(pdf, target)
        return str(target)
    finally:
        _clear(work)


def clear_profiles(target_directory: str) -> None:
    """Remove the profiles of processes that were killed."""
    for directory in Path(target_directory).glob(f"{_PREFIX}*"):
        _clear(directory)


def _check_type(path: str, kind: str) -> str:
    """Return the format that selects the filter; reject what LibreOffice cannot open."""
    if kind != detect_file_type(Path(path)):
        raise errors.FileCorrupt(f"The file is not a {kind} file, or is damaged")
    if kind == "ole":
        return detect_ole_type(path)
    if kind == "text" and path.lower().endswith(".csv"):
        return "csv"
    if kind not in _FILTERS:
        raise errors.UnsupportedFile(f"LibreOffice cannot convert {kind!r} files to PDF")
    if kind in _ZIPPED:
        with open_archive(path, MAX_EXPANDED_BYTES) as archive:
            archive.check_declared_bytes()
            if kind.startswith("od"):
                # Imported here: most processes that import this module convert nothing.
                from .odf import reject_encrypted_odf

                reject_encrypted_odf(archive)
    return kind


def _command(program: str, kind: str, source: Path, work: Path) -> list[str]:
    name = _FILTERS[kind]
    if kind == "csv":
        name = name.format(ord(detect_delimiter(source.read_text(encoding="utf-8"))))
    return [
        program,
        f"-env:UserInstallation={(work / 'profile').resolve().as_uri()}",
        "--headless", "--norestore", "--nologo", "--nodefault", "--nolockcheck",
        f"--infilter={name}",
        "--convert-to", "pdf",
        "--outdir", str(work / "out"),
        str(source),
    ]  # fmt: skip


def _run(command: Sequence[str], work: Path, timeout_s: float) -> int:
    """Return the exit code, which only reveals crashes: unreadable documents exit with 0."""
    proxy = f"http://{_BLACKHOLE_HOST}:{_BLACKHOLE_PORT}"
    environment = {
        **inherited_environment("PATH", "LANG", "TZ"),
        "HOME": str(work),
        "TMPDIR": str(work / "tmp"),
        "SAL_USE_VCLPLUGIN": "svp",
        **dict.fromkeys(("http_proxy", "https_proxy", "ftp_proxy", "all_proxy"), proxy),
    }
    no_output: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with running_program(command, cwd=work, env=environment, **no_output) as process:
        try:
            return process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            text = f"LibreOffice did not finish within {timeout_s:g} s"
            raise errors.ProcessingTimeout(text, timeout_s=timeout_s) from None


def _is_pdf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            begins = file.read(5) == b"%PDF-"
            file.seek(-min(path.stat().st_size, _END_WITHIN), os.SEEK_END)
            return begins and b"%%EOF" in file.read()
    except OSError:
        return False


def _clear(directory: Path) -> None:
    url = "file://" + quote(str((directory / "profile").resolve()), safe=_UNESCAPED)
    digest = hashlib.md5(url.encode("utf-16-le"), usedforsecurity=False).digest()
    name = f"OSL_PIPE_{os.getuid()}_SingleOfficeIPC_{''.join(f'{byte:x}' for byte in digest)}"
    for socket_directory in _SOCKETS:
        try:
            os.unlink(f"{socket_directory}/{name}")
        except PermissionError:
            return  # a confined process: the worker will do it, with `clear_profiles`
        except OSError:  # usually there is none
            pass
    shutil.rmtree(directory, ignore_errors=True)


def _write_profile(directory: Path) -> None:
    items = "".join(
        f'<item oor:path="/{escape(path, quote=False)}"><prop oor:name="{name}" oor:op="fuse">'
        f"<value>{escape(value, quote=False)}</value></prop></item>"
        for path, name, value in _SETTINGS
    )
    directory.mkdir(parents=True)
    (directory / "registrymodifications.xcu").write_text(
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<oor:items xmlns:oor="http://openoffice.org/2001/registry"'
        ' xmlns:xs="http://www.w3.org/2001/XMLSchema"'
        f' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{items}</oor:items>',
        encoding="utf-8",
    )
