"""Office files are read in another process, where they can do no harm."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import docx
from PIL import Image

from secretary.documents.office.pages import read_office
from secretary.worker.sandbox import Sandbox


async def test_a_document_is_read_in_a_sandbox(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    document = docx.Document()
    document.add_heading("Title", 1)
    document.add_picture(str(tmp_path / "red.png"))
    document.save(str(tmp_path / "file.docx"))
    call = partial(
        read_office, str(tmp_path / "file.docx"), "docx", str(tmp_path), include_images=True
    )
    sandbox = Sandbox(1)
    await sandbox.open()
    try:
        read = await sandbox.run(call)
    finally:
        await sandbox.close()
    assert read == call()
    assert read.pages[0].markdown == "# Title\n\n![](img-001.png)\n"


def test_who_only_sends_the_work_loads_no_parsers() -> None:
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; import secretary.documents.office.pages;"
        " import secretary.documents.office.libreoffice; print(*sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "secretary.documents.office.pages" in result.stdout.split()
    assert not {"lxml", "PIL"} & set(result.stdout.split())
