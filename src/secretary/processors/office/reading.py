"""Any office file to Markdown, page by page. Runs in a process of its own."""

from ...errors import FileCorrupt
from .archive import MIB
from .document import OfficeDocument
from .pictures import Pictures


def read_office(
    path: str,
    kind: str,
    directory: str,
    *,
    include_images: bool = False,
    name: str | None = None,
    max_expanded_bytes: int = 1024 * MIB,
    max_cells: int = 2_000_000,
) -> OfficeDocument:
    """`kind` is that of `file_kinds`; pictures go into `directory`, if they are asked for.

    `name` is what the file's owner calls it: of a text only its name tells whether it is a table.
    """
    # Loaded here, because whoever sends this function to another process needs no parsers.
    from .formats import read_document

    document = read_document(
        path,
        kind,
        Pictures(directory if include_images else None),
        name=name,
        max_expanded_bytes=max_expanded_bytes,
        max_cells=max_cells,
    )
    if not document.pages:
        raise FileCorrupt(f"There is nothing in the {kind} file: no sheet, no slide, no chapter")
    return document
