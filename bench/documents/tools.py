"""The tools that are compared: each a module in `readers/`, in an environment of its own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Tool:
    name: str
    module: str
    #: What pip installs for it; nothing: it runs under our own Python.
    requirements: tuple[str, ...] = ()
    #: A program of the system, and the Debian package that brings it.
    program: str | None = None
    package: str | None = None


SECRETARY = Tool("secretary", "secretary_reader")
PDFIUM = Tool("pypdfium2", "pdfium_reader")
#: 2.0 of these two is an empty package.
MUPDF = ("pymupdf<2",)
TOOLS = (
    SECRETARY,
    PDFIUM,
    Tool("pdftotext", "pdftotext_reader", (), "pdftotext", "poppler-utils"),
    Tool("pymupdf", "pymupdf_reader", MUPDF),
    Tool("pymupdf4llm", "pymupdf4llm_reader", (*MUPDF, "pymupdf4llm<2")),
    Tool("pypdf", "pypdf_reader", ("pypdf",)),
    Tool("markitdown", "markitdown_reader", ("markitdown[pdf]",)),
    Tool("kreuzberg", "kreuzberg_reader", ("kreuzberg",)),
    Tool("xberg", "xberg_reader", ("xberg",)),
    Tool("pdf-inspector", "pdf_inspector_reader", ("pdf-inspector",)),
    Tool("pdf_oxide", "pdf_oxide_reader", ("pdf_oxide",)),
)
