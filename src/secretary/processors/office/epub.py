"""Electronic books (EPUB): a page for each part of the spine, in its order."""

import posixpath
from urllib.parse import unquote, urlsplit

from lxml import etree

from ...errors import FileCorrupt, FileEncrypted
from .archive import Archive
from .blocks import Block, Picture
from .document import OfficeDocument, page_of
from .html import blocks_of, data_of, parsed_html
from .pictures import Pictures
from .xml_parts import Element, parsed

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_DUBLIN = "{http://purl.org/dc/elements/1.1/}"
_CIPHER = "{http://www.w3.org/2001/04/xmlenc#}CipherReference"
_FACTS = {"title": "title", "creator": "author", "language": "language", "date": "created_at"}


def read_epub(archive: Archive, pictures: Pictures) -> OfficeDocument:
    path = _package_path(archive)
    package = parsed(archive.read(path))
    names = _spine(package, posixpath.dirname(path))
    _refuse_encrypted(archive, set(names))
    pages = []
    for number, name in enumerate(names, 1):
        blocks = _blocks(archive, name, pictures) if name in archive else []
        pages.append(page_of(number, blocks, pictures, name=posixpath.basename(name)))
    if not pages:
        raise FileCorrupt("The book has no content")
    return OfficeDocument(pages=pages, facts=_facts(package))


def _package_path(archive: Archive) -> str:
    if "META-INF/container.xml" not in archive:
        raise FileCorrupt("The book does not say where its content is")
    container = parsed(archive.read("META-INF/container.xml"))
    for each in container.iter(f"{_CONTAINER}rootfile"):
        if each.get("full-path"):
            return str(each.get("full-path"))
    raise FileCorrupt("The book does not say where its content is")


def _spine(package: Element, folder: str) -> list[str]:
    items = {
        each.get("id"): posixpath.normpath(posixpath.join(folder, unquote(each.get("href", ""))))
        for each in package.iterfind(f"{_PACKAGE}manifest/{_PACKAGE}item")
    }
    order = package.iterfind(f"{_PACKAGE}spine/{_PACKAGE}itemref")
    return [items[each.get("idref")] for each in order if each.get("idref") in items]


def _refuse_encrypted(archive: Archive, names: set[str]) -> None:
    """Fonts may be encrypted; if the text is, the book is protected."""
    if "META-INF/encryption.xml" not in archive:
        return
    for each in parsed(archive.read("META-INF/encryption.xml")).iter(_CIPHER):
        if unquote(each.get("URI", "")) in names:
            raise FileEncrypted("The book is protected against copying")


def _facts(package: Element) -> dict[str, str]:
    facts: dict[str, str] = {}
    for name, fact in _FACTS.items():
        text = package.findtext(f"{_PACKAGE}metadata/{_DUBLIN}{name}")
        if text and text.strip():
            facts[fact] = text.strip()
    return facts


def _blocks(archive: Archive, name: str, pictures: Pictures) -> list[Block]:
    data = archive.read(name)
    try:
        root = parsed(data)
    except (etree.XMLSyntaxError, FileCorrupt):
        # Many are HTML rather than XHTML; entities that a book declares are not expanded.
        root = parsed_html(data)
    _unlink(root)

    def picture(source: str, alt: str) -> Picture:
        if not pictures.are_kept:
            return Picture(alt)
        found = data_of(source)
        path = posixpath.join(posixpath.dirname(name), unquote(urlsplit(source).path))
        path = posixpath.normpath(path)
        if found is None and source and path in archive:
            found = archive.read(path)
        return Picture(alt, pictures.keep(found) if found else None)

    return blocks_of(root, picture)


def _unlink(root: Element) -> None:
    """Links from part to part lead nowhere once the book is Markdown."""
    for each in root.iter("a", "{http://www.w3.org/1999/xhtml}a"):
        if not urlsplit(each.get("href") or "").scheme:
            each.attrib.pop("href", None)
