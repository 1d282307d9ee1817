"""Malicious office files converted by LibreOffice: nothing is fetched, executed or left behind."""

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from secretary.core import processes

from ..hostile_office import (
    docx_that_fetches,
    odt_that_acts,
    rtf_that_fetches,
    xlsx_that_fetches,
)
from ..office_files import docx_of, odf_of, paragraph
from ..requirements import needed
from ..service_fixture import running_service
from ..web_server import WebRequest, serving

DIRECT, CONVERTED = "/api/office/process", "/api/office/process-via-pdf"


@pytest.fixture(autouse=True)
def libreoffice() -> None:
    needed("soffice")


async def answered(request: WebRequest) -> None:
    await request.answer(b"FETCHED")


def dead_sockets() -> set[str]:
    """Sockets of LibreOffice without a listener."""
    return {str(path) for path in Path("/tmp").glob("OSL_PIPE_*") if _is_dead(path)}


def _is_dead(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == errno.ECONNREFUSED


def working() -> list[str]:
    """LibreOffice processes below this one."""
    below = processes.descendants(os.getpid())
    lines = [Path(f"/proc/{process.pid}/cmdline") for process in below]
    return [line for path in lines if "soffice" in (line := _line(path))]


def _line(path: Path) -> str:
    try:
        return path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


async def test_nothing_is_fetched_and_nothing_is_run(tmp_path: Path) -> None:
    async with serving(answered) as web, running_service(tmp_path / "data") as service:
        address = web.url("")
        files = [
            (DIRECT, "a.docx", docx_that_fetches(address)),
            (CONVERTED, "a.docx", docx_that_fetches(address)),
            (CONVERTED, "a.xlsx", xlsx_that_fetches(address)),
            (DIRECT, "a.rtf", rtf_that_fetches(address)),
            (CONVERTED, "a.odt", odt_that_acts(str(tmp_path / "acted"))),
        ]
        read = [service.read(route, content, name) for route, name, content in files]
        for results in await asyncio.gather(*read):
            assert "Seen" in results["extracted_text"]
            assert "FETCHED" not in results["extracted_text"]
    assert web.connections == 0
    assert not (tmp_path / "acted").exists()


async def test_what_takes_for_ever_is_ended(tmp_path: Path) -> None:
    dead = dead_sockets()
    long = odf_of("text", "<text:p>It takes its time.</text:p>" * 300_000)
    async with running_service(tmp_path, documents={"conversion_timeout_sec": 2}) as service:
        error = await service.refused(CONVERTED, long, "a.odt")
        assert working() == []
    # Only the upload is kept for a while: a failed job can be restarted.
    assert await service.leftovers(uploads=False) == []
    assert error["code"] == "PROCESSING_TIMEOUT"
    assert error["message"] == "LibreOffice did not finish within 2 s"
    assert dead_sockets() - dead == set()


async def test_what_takes_all_memory_is_ended(tmp_path: Path) -> None:
    dead = dead_sockets()
    async with running_service(
        tmp_path, generic_worker={"memory_limit_mb": 80, "max_crashes": 1}
    ) as service:
        error = await service.refused(CONVERTED, docx_of(paragraph("x")), "a.docx")
        assert working() == []
    assert await service.leftovers(uploads=False) == []
    assert error["code"] == "OUT_OF_MEMORY"
    assert dead_sockets() - dead == set()
