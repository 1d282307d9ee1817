"""The zip of an OpenDocument file: its parts, its properties, whether it is encrypted."""

from lxml import etree

from ...errors import FileCorrupt, FileEncrypted
from .archive import Archive, opened_archive
from .xml_parts import DUBLIN, Element, parsed, texts_in

OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_MANIFEST = "{urn:oasis:names:tc:opendocument:xmlns:manifest:1.0}"
_META = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_PROPERTIES = {
    f"{DUBLIN}title": "title",
    f"{DUBLIN}subject": "subject",
    f"{_META}initial-creator": "author",
    f"{DUBLIN}language": "language",
    f"{_META}keyword": "keywords",
    f"{_META}creation-date": "created_at",
    f"{DUBLIN}date": "modified_at",
}


def refuse_encrypted(archive: Archive) -> None:
    if "META-INF/manifest.xml" not in archive:
        return
    manifest = parsed(archive.read("META-INF/manifest.xml"))
    if next(manifest.iter(f"{_MANIFEST}encryption-data"), None) is not None:
        raise FileEncrypted("The document is protected by a password")


def refuse_encrypted_odf(path: str, max_expanded_bytes: int) -> None:
    try:
        with opened_archive(path, max_expanded_bytes) as archive:
            refuse_encrypted(archive)
    except (etree.LxmlError, ValueError) as error:
        raise FileCorrupt("The document is damaged: what it says of its parts is no XML") from error


def content_of(archive: Archive) -> Element:
    refuse_encrypted(archive)
    if "content.xml" not in archive:
        raise FileCorrupt("The document has no content")
    return parsed(archive.read("content.xml"))


def part_of(archive: Archive, name: str) -> Element | None:
    return parsed(archive.read(name)) if name in archive else None


def facts_of(archive: Archive) -> dict[str, str]:
    meta = part_of(archive, "meta.xml")
    holder = meta.find(f"{OFFICE}meta") if meta is not None else None
    return texts_in(holder, _PROPERTIES) if holder is not None else {}
