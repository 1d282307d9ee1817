"""Reads EPUB books: one page for each item of the spine."""

import posixpath
import re
from html.entities import html5
from urllib.parse import unquote, urlsplit

from lxml import etree

from ...core.errors import FileCorrupt, FileEncrypted
from .blocks import Block, OfficeDocument, Picture, Pictures
from .containers import Archive
from .html import XHTML, decode_data_uri, html_blocks, parse_html
from .markdown import build_page
from .text import decode_markup
from .xml_parser import DUBLIN, Element, parse_xml

_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_CIPHER = "{http://www.w3.org/2001/04/xmlenc#}CipherReference"
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
#: Including internal entity declarations: entities remain unexpanded.
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
_ENTITY = re.compile(r"&(\w+);")
_XML_ENTITIES = {"amp", "lt", "gt", "quot", "apos"}
_METADATA = {"title": "title", "creator": "author", "language": "language", "date": "created_at"}


def read_epub(archive: Archive, pictures: Pictures) -> OfficeDocument:
    path = _package_path(archive)
    package = parse_xml(archive.read(path))
    names = _spine(package, posixpath.dirname(path))
    _reject_encrypted(archive, set(names))
    pages = []
    for number, name in enumerate(names, 1):
        blocks = _blocks(archive, name, pictures) if name in archive else []
        pages.append(build_page(number, blocks, pictures, name=posixpath.basename(name)))
    if not pages:
        raise FileCorrupt("The book has no content")
    return OfficeDocument(pages=pages, facts=_metadata(package))


def _package_path(archive: Archive) -> str:
    if "META-INF/container.xml" not in archive:
        raise FileCorrupt("The book has no package document")
    container = parse_xml(archive.read("META-INF/container.xml"))
    for each in container.iter(f"{_CONTAINER}rootfile"):
        if each.get("full-path"):
            return str(each.get("full-path"))
    raise FileCorrupt("The book has no package document")


def _spine(package: Element, folder: str) -> list[str]:
    items = {
        each.get("id"): posixpath.normpath(posixpath.join(folder, unquote(each.get("href", ""))))
        for each in package.iterfind(f"{_PACKAGE}manifest/{_PACKAGE}item")
    }
    order = package.iterfind(f"{_PACKAGE}spine/{_PACKAGE}itemref")
    return [items[each.get("idref")] for each in order if each.get("idref") in items]


def _reject_encrypted(archive: Archive, names: set[str]) -> None:
    """Fonts may be encrypted; if the text is, the book has DRM."""
    if "META-INF/encryption.xml" not in archive:
        return
    for each in parse_xml(archive.read("META-INF/encryption.xml")).iter(_CIPHER):
        if unquote(each.get("URI", "")) in names:
            raise FileEncrypted("The book is copy-protected")


def _metadata(package: Element) -> dict[str, str]:
    facts: dict[str, str] = {}
    for name, fact in _METADATA.items():
        text = package.findtext(f"{_PACKAGE}metadata/{DUBLIN}{name}")
        if text and text.strip():
            facts[fact] = text.strip()
    return facts


def _blocks(archive: Archive, name: str, pictures: Pictures) -> list[Block]:
    root = _root(archive.read(name))
    _remove_internal_links(root)

    def picture(source: str, alt: str) -> Picture:
        if not pictures.are_saved:
            return Picture(alt)
        data = decode_data_uri(source)
        path = posixpath.join(posixpath.dirname(name), unquote(urlsplit(source).path))
        path = posixpath.normpath(path)
        if data is None and source and path in archive:
            data = archive.read(path)
        return Picture(alt, pictures.save(data) if data else None)

    return html_blocks(root, picture)


def _root(data: bytes) -> Element:
    """Parse as XML if possible: an HTML parser misreads self-closing elements."""
    text = _DECLARATION.sub("", decode_markup(data))
    text = _ENTITY.sub(lambda data: _entity_text(data[1], data[0]), _DOCTYPE.sub("", text, count=1))
    try:
        return parse_xml(text.encode("utf-8", "replace"))
    except etree.XMLSyntaxError:
        return parse_html(data)


def _entity_text(name: str, written: str) -> str:
    return written if name in _XML_ENTITIES else html5.get(f"{name};", written)


def _remove_internal_links(root: Element) -> None:
    """Remove links between parts, which lead nowhere in Markdown."""
    for each in root.iter("a", f"{XHTML}a"):
        if not urlsplit(each.get("href") or "").scheme:
            each.attrib.pop("href", None)
