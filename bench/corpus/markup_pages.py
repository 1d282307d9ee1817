"""Documents typeset from templates by Chromium (HTML), Typst and LibreOffice (flat ODT)."""

import json
import shutil
import tempfile
from collections.abc import Sequence
from html import escape
from pathlib import Path

import jinja2
import typst
from harness import output

from .model import Document, spans

CHROMIUM_LIMIT_S, OFFICE_LIMIT_S = 60, 240
CHROMIUM = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--no-pdf-header-footer",
)  # fmt: skip
TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
    undefined=jinja2.StrictUndefined,
)
TEMPLATES.filters |= {
    "e": lambda text: escape(str(text)),
    "kind": lambda block: type(block).__name__,
    "quote": lambda text: json.dumps(text, ensure_ascii=False),
    "spans": spans,
}


def source(document: Document, form: str) -> str:
    """The document as "html", "typ" or "fodt". In columns, the first two blocks span all."""
    split = 2 if document.style.columns > 1 else 0
    return TEMPLATES.get_template(f"page.{form}.j2").render(
        style=document.style, language=document.language,
        spanning=document.blocks[:split], blocks=document.blocks[split:],
    )  # fmt: skip


def write_typst(document: Document, target: Path) -> None:
    target.write_bytes(typst.compile(source(document, "typ").encode()))


def write_chromium(document: Document, target: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        page = Path(directory) / "page.html"
        page.write_text(source(document, "html"), encoding="utf-8")
        given = [f"--user-data-dir={directory}/profile", f"--print-to-pdf={target}"]
        command = ["chromium", *CHROMIUM, *given, page.as_uri()]
        output("chromium", command, limit_s=CHROMIUM_LIMIT_S)


def convert_office(sources: Sequence[Path], targets: Sequence[Path]) -> None:
    """All files in one call, as each call has to start LibreOffice."""
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        profile = f"-env:UserInstallation=file://{directory}/profile"
        command = ["soffice", profile, "--headless", "--convert-to", "pdf", "--outdir", directory]
        output("soffice", [*command, *sources], limit_s=OFFICE_LIMIT_S)
        for file, target in zip(sources, targets, strict=True):
            shutil.move(Path(directory) / f"{file.stem}.pdf", target)
