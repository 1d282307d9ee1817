"""Small office files, written part by part where the libraries for making them cannot."""

from collections.abc import Mapping
from pathlib import Path

from secretary.processors.office.document import OfficeDocument
from secretary.processors.office.reading import read_office

from .documents import zipped

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
NAMES = f"{W} {R} {M} {MC}"
TYPES = b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relations(**targets: tuple[str, str]) -> bytes:
    """Id -> the kind of relation, and its target; one with `://` in it is outside."""
    entries = "".join(
        f'<Relationship Id="{identity}" Type="{RELATION}/{kind}" Target="{target}"'
        f"{' TargetMode=' + chr(34) + 'External' + chr(34) if '://' in target else ''}/>"
        for identity, (kind, target) in targets.items()
    )
    space = "http://schemas.openxmlformats.org/package/2006/relationships"
    return f'<Relationships xmlns="{space}">{entries}</Relationships>'.encode()


def docx_of(
    body: str, related: Mapping[str, tuple[str, str]] | None = None, **parts: str | bytes
) -> bytes:
    """A docx with this body; parts are by name (`styles`), bound by a relation of that name."""
    bound = {name: (name, f"{name}.xml") for name in parts} | dict(related or {})
    document = f"<w:document {NAMES}><w:body>{body}</w:body></w:document>"
    return zipped(
        {
            "[Content_Types].xml": TYPES,
            "_rels/.rels": relations(main=("officeDocument", "word/document.xml")),
            "word/document.xml": document.encode(),
            "word/_rels/document.xml.rels": relations(**bound),
            **{f"word/{name}.xml": _bytes(part) for name, part in parts.items()},
        }
    )


def paragraph(text: str, properties: str = "", run: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:rPr>{run}</w:rPr><w:t>{text}</w:t></w:r></w:p>"


def read(content: bytes | Path, kind: str, directory: Path, **options: object) -> OfficeDocument:
    """`directory` takes the file, and its pictures in `pictures`."""
    path = content
    if isinstance(content, bytes):
        path = directory / f"file.{kind}"
        path.write_bytes(content)
    pictures = directory / "pictures"
    pictures.mkdir(exist_ok=True)
    return read_office(str(path), kind, str(pictures), **options)  # type: ignore[arg-type]  # tests name them


def markdown(content: bytes | Path, kind: str, directory: Path, **options: object) -> str:
    """All pages, one below the other."""
    return "\n".join(page.markdown for page in read(content, kind, directory, **options).pages)


def _bytes(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part
