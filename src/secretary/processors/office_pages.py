"""The pages of an office file: slides, sheets, chapters, or all of it as one."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .office.reading import read_office
from .shelf import Shelf


def make_office_pages(
    path: str, kind: str, name: str, shelf: Shelf, scratch: str, images: bool
) -> dict[str, Any]:
    """Makes all of them and tells what is known about the document."""
    # Pictures go not at once where they are kept: others may have links to what is there.
    with TemporaryDirectory(dir=scratch) as directory:
        document = read_office(path, kind, directory, include_images=images, name=name)
        for picture in sorted(os.listdir(directory)):
            shelf.write(picture, Path(directory, picture).read_bytes())
        for page in document.pages:
            shelf.save(page)
    return {**document.facts, "page_count": len(document.pages)}
