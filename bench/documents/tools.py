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
    licence: str = ""


TOOLS = (
    Tool("secretary", "secretary_reader"),
    Tool("pypdfium2", "pdfium_reader"),
    Tool("pdftotext", "pdftotext_reader", program="pdftotext", package="poppler-utils"),
)
