"""The ZIP with everything a job has made, packed when someone asks for it."""

import os
import zipfile
from pathlib import Path
from uuid import uuid4

#: What cannot be made smaller.
PACKED = frozenset({".jpg", ".jpeg", ".png", ".gif", ".webp", ".mp3", ".mp4", ".zip"})


def pack(directory: Path, target: Path, *, without: frozenset[str]) -> None:
    """All files of a directory; other archives in it only hold some of the same."""
    unfinished = target.with_name(f".{uuid4().hex}")
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for path in sorted(directory.rglob("*")):
                if _belongs(path, without):
                    packed = path.suffix in PACKED
                    kind = zipfile.ZIP_STORED if packed else zipfile.ZIP_DEFLATED
                    archive.write(path, path.relative_to(directory), kind)
        os.replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)


def _belongs(path: Path, without: frozenset[str]) -> bool:
    hidden = path.name.startswith(".")
    return path.is_file() and not hidden and path.suffix != ".zip" and path.name not in without
