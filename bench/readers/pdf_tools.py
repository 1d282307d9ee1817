"""The PDF tools that Secretary is compared with: each function returns the tool's version and its
reader. A tool is imported only in its own environment."""

# mypy: disable-error-code="import-not-found"
import asyncio
import inspect
import json
import subprocess
from collections.abc import Callable
from importlib.metadata import version

Reader = tuple[str, Callable[[str], str]]


def pypdfium2() -> Reader:
    """The text of PDFium, without any layout analysis."""
    import pypdfium2

    def read(path: str) -> str:
        pages = []
        with pypdfium2.PdfDocument(path) as document:
            for number in range(len(document)):
                page = document[number]
                text_page = page.get_textpage()
                pages.append(text_page.get_text_bounded())
                text_page.close()
                page.close()
        return "\n\n".join(pages)

    return version("pypdfium2"), read


def pdftotext() -> Reader:
    """Poppler's program, in its default reading order."""

    def run(*arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(["pdftotext", *arguments], capture_output=True, check=True)

    number = run("-v").stderr.decode().split("\n")[0].split()[-1]
    return number, lambda path: run("-enc", "UTF-8", path, "-").stdout.decode("utf-8", "replace")


def pymupdf() -> Reader:
    import pymupdf

    def read(path: str) -> str:
        with pymupdf.open(path) as document:
            return "\n\n".join(page.get_text() for page in document)

    return version("pymupdf"), read


def pymupdf4llm() -> Reader:
    import pymupdf4llm

    return version("pymupdf4llm"), lambda path: str(
        pymupdf4llm.to_markdown(path, show_progress=False)
    )


def pypdf() -> Reader:
    import pypdf

    return version("pypdf"), lambda path: "\n\n".join(
        page.extract_text() for page in pypdf.PdfReader(path).pages
    )


def markitdown() -> Reader:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return version("markitdown"), lambda path: str(converter.convert(path).markdown)


def kreuzberg() -> Reader:
    import kreuzberg

    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    return kreuzberg.__version__, lambda path: str(
        kreuzberg.extract_file_sync(path, config=config).content
    )


def xberg() -> Reader:
    import xberg

    options = {"output_format": "markdown", "use_cache": False}

    async def read(path: str) -> str:
        source = xberg.ExtractInput.from_json(json.dumps({"kind": "uri", "uri": path}))
        answer = xberg.extract(source, xberg.ExtractionConfig.from_json(json.dumps(options)))
        result = await answer if inspect.isawaitable(answer) else answer
        return "\n\n".join(document.content for document in result.results)

    return version("xberg"), lambda path: asyncio.run(read(path))


def pdf_inspector() -> Reader:
    import pdf_inspector

    return version("pdf-inspector"), lambda path: str(
        pdf_inspector.process_pdf(path).markdown or ""
    )


def pdf_oxide() -> Reader:
    import pdf_oxide

    return version("pdf_oxide"), lambda path: str(pdf_oxide.PdfDocument(path).to_markdown_all())
