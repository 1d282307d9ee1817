"""The PDF tools that are compared, by function. A tool is imported only in its own environment."""

# mypy: disable-error-code="import-not-found"
import asyncio
import inspect
import json
import subprocess
from collections.abc import Callable

Reader = Callable[[str], str]


def secretary() -> Reader:
    """Our own extraction of the text layer, without jobs and files around it."""
    from secretary.documents.assembly import find_headers_footers, strip_headers_footers
    from secretary.documents.pdf.pages import FontStats, read_page
    from secretary.documents.pdf.pdfium import open_page, open_pdf

    def read(path: str) -> str:
        pages = []
        with open_pdf(path) as document:
            typography = FontStats(document)
            for number in range(1, len(document) + 1):
                with open_page(document, number) as page:
                    pages.append(read_page(page, typography).markdown)
        running = find_headers_footers(pages)
        cleaned = (strip_headers_footers(page.strip(), running) for page in pages)
        return "\n\n".join(filter(None, cleaned))

    return read


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

    return read


def pdftotext() -> Reader:
    """Poppler's program, in its default reading order."""
    command = ["pdftotext", "-enc", "UTF-8"]
    return lambda path: subprocess.run(
        [*command, path, "-"], capture_output=True, check=True
    ).stdout.decode("utf-8", "replace")


def pymupdf() -> Reader:
    import pymupdf

    def read(path: str) -> str:
        with pymupdf.open(path) as document:
            return "\n\n".join(page.get_text() for page in document)

    return read


def pymupdf4llm() -> Reader:
    import pymupdf4llm

    return lambda path: str(pymupdf4llm.to_markdown(path, show_progress=False))


def pypdf() -> Reader:
    import pypdf

    return lambda path: "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)


def markitdown() -> Reader:
    from markitdown import MarkItDown

    converter = MarkItDown()
    return lambda path: str(converter.convert(path).markdown)


def kreuzberg() -> Reader:
    import kreuzberg

    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    return lambda path: str(kreuzberg.extract_file_sync(path, config=config).content)


def xberg() -> Reader:
    import xberg

    options = {"output_format": "markdown", "use_cache": False}

    async def read(path: str) -> str:
        source = xberg.ExtractInput.from_json(json.dumps({"kind": "uri", "uri": path}))
        answer = xberg.extract(source, xberg.ExtractionConfig.from_json(json.dumps(options)))
        result = await answer if inspect.isawaitable(answer) else answer
        return "\n\n".join(document.content for document in result.results)

    return lambda path: asyncio.run(read(path))


def pdf_inspector() -> Reader:
    import pdf_inspector

    return lambda path: str(pdf_inspector.process_pdf(path).markdown or "")


def pdf_oxide() -> Reader:
    import pdf_oxide

    return lambda path: str(pdf_oxide.PdfDocument(path).to_markdown_all())
