"""Documents set by LibreOffice from files of its own, of Word and of PowerPoint."""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from . import odf_source, word_source
from .model import Document

LIMIT_S = 240


def write_all(documents: Sequence[tuple[Document, Path]], form: str) -> None:
    """All of one form in one call: each call costs the start of the program."""
    program = shutil.which("soffice") or "soffice"
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        sources = []
        for number, (document, _) in enumerate(documents):
            source = Path(directory) / f"{number}.{form}"
            _write(document, source, form)
            sources.append(source)
        profile = f"-env:UserInstallation=file://{directory}/profile"
        command = [program, profile, "--headless", "--convert-to", "pdf", "--outdir", directory]
        subprocess.run(
            [*command, *map(str, sources)], check=True, capture_output=True, timeout=LIMIT_S
        )
        for source, (_, target) in zip(sources, documents, strict=True):
            shutil.move(source.with_suffix(".pdf"), target)


def _write(document: Document, source: Path, form: str) -> None:
    match form:
        case "fodt":
            source.write_text(odf_source.text_document(document), encoding="utf-8")
        case "docx":
            word_source.write_docx(document, source)
        case "pptx":
            word_source.write_pptx(document, source)
