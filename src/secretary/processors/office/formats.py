"""Which module reads which kind of office file."""

from collections.abc import Callable
from pathlib import PurePath

from lxml import etree

from ...errors import FileCorrupt, UnsupportedFile
from .archive import Archive, opened_archive
from .document import OfficeDocument
from .docx import read_docx
from .epub import read_epub
from .html import read_html
from .odf import read_odp, read_ods, read_odt
from .ole import refuse_ole
from .pictures import Pictures
from .pptx import read_pptx
from .rtf import read_rtf
from .text import read_text
from .xlsx import read_xlsx

_ZIPPED: dict[str, Callable[[Archive, Pictures], OfficeDocument]] = {
    "docx": read_docx,
    "epub": read_epub,
    "odp": read_odp,
    "odt": read_odt,
    "pptx": read_pptx,
}
_SHEETS: dict[str, Callable[[Archive, Pictures, int], OfficeDocument]] = {
    "ods": read_ods,
    "xlsx": read_xlsx,
}
_PAGES = {".html", ".htm", ".xhtml"}


def read_document(
    path: str,
    kind: str,
    pictures: Pictures,
    *,
    name: str | None,
    max_expanded_bytes: int,
    max_cells: int,
) -> OfficeDocument:
    try:
        if kind in _ZIPPED:
            with opened_archive(path, max_expanded_bytes) as archive:
                return _ZIPPED[kind](archive, pictures)
        if kind in _SHEETS:
            with opened_archive(path, max_expanded_bytes) as archive:
                return _SHEETS[kind](archive, pictures, max_cells)
        match kind:
            case "text" if PurePath(name or path).suffix.lower() in _PAGES:
                # A page that does not begin as pages do: a fragment, or XHTML.
                return read_html(path, pictures)
            case "html":
                return read_html(path, pictures)
            case "rtf":
                return read_rtf(path, pictures)
            case "text":
                return read_text(path, name, pictures, max_cells)
            case "ole":
                refuse_ole(path)
    except (etree.LxmlError, RecursionError, ValueError, LookupError, OverflowError) as error:
        # Whatever is not where it should be: a number that is none, a part that has no root.
        raise FileCorrupt(f"The {kind} file is damaged and cannot be read") from error
    raise UnsupportedFile(f"A file of the kind {kind!r} is not an office file")
