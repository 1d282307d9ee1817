"""Small office files, written part by part where the libraries for creating them cannot."""

from collections.abc import Mapping
from pathlib import Path

from secretary.documents.office.blocks import OfficeDocument
from secretary.documents.office.pages import read_office

from .minimal_files import zipped

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
R = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
M = 'xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
NAMES = f"{W} {R} {M} {MC}"
TYPES = b'<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def relations(**targets: tuple[str, str]) -> bytes:
    """Relation ID -> type and target; a target with `://` is external."""
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
    """A docx with this body; `parts` are given by name (`styles`), with a relation of that name."""
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
    """`directory` receives the file, and its images in `pictures`."""
    path = content
    if isinstance(content, bytes):
        path = directory / f"file.{kind}"
        path.write_bytes(content)
    pictures = directory / "pictures"
    pictures.mkdir(exist_ok=True)
    return read_office(str(path), kind, str(pictures), **options)  # type: ignore[arg-type]  # checked by read_office


def markdown(content: bytes | Path, kind: str, directory: Path, **options: object) -> str:
    """All pages, one below the other."""
    return "\n".join(page.markdown for page in read(content, kind, directory, **options).pages)


def _bytes(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part


ODF = "urn:oasis:names:tc:opendocument:xmlns"
ODF_NAMES = " ".join(
    [f'xmlns:{name}="{ODF}:{name}:1.0"' for name in ("office", "text", "table", "style")]
    + [f'xmlns:presentation="{ODF}:presentation:1.0"']
    + [f'xmlns:draw="{ODF}:drawing:1.0"', f'xmlns:fo="{ODF}:xsl-fo-compatible:1.0"']
    + [f'xmlns:svg="{ODF}:svg-compatible:1.0"', 'xmlns:xlink="http://www.w3.org/1999/xlink"']
    + ['xmlns:dc="http://purl.org/dc/elements/1.1/"', f'xmlns:meta="{ODF}:meta:1.0"']
)  # fmt: skip


def odf_of(
    family: str,
    body: str,
    *,
    styles: str = "",
    is_encrypted: bool = False,
    parts: Mapping[str, bytes] | None = None,
) -> bytes:
    """`family` is `text`, `spreadsheet` or `presentation`; other parts by their names."""
    mime_type = f"application/vnd.oasis.opendocument.{family}"
    secret = "<manifest:encryption-data/>" if is_encrypted else ""
    manifest = (
        f'<manifest:manifest xmlns:manifest="{ODF}:manifest:1.0"><manifest:file-entry'
        f' manifest:full-path="/" manifest:media-type="{mime_type}"/><manifest:file-entry'
        f' manifest:full-path="content.xml" manifest:media-type="text/xml">{secret}'
        "</manifest:file-entry></manifest:manifest>"
    )
    content = (
        f'<office:document-content {ODF_NAMES} office:version="1.2"><office:automatic-styles>'
        f"{styles}</office:automatic-styles><office:body><office:{family}>{body}"
        f"</office:{family}></office:body></office:document-content>"
    )
    return zipped(
        {
            "mimetype": mime_type.encode(),
            "META-INF/manifest.xml": manifest.encode(),
            "content.xml": content.encode(),
            **(parts or {}),
        }
    )


def odt_of(
    body: str,
    *,
    styles: str = "",
    is_encrypted: bool = False,
    parts: Mapping[str, bytes] | None = None,
) -> bytes:
    return odf_of("text", body, styles=styles, is_encrypted=is_encrypted, parts=parts)


def ole_of(*streams: str) -> bytes:
    """A compound file, as far as its beginning and the names of its streams go."""
    entries = b""
    for name in ("Root Entry", *streams):
        written = name.encode("utf-16-le") + bytes(2)
        kind = b"\x05" if name == "Root Entry" else b"\x02"
        entries += written.ljust(64, b"\0") + len(written).to_bytes(2, "little") + kind + bytes(61)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + entries.ljust(1024, b"\0")
