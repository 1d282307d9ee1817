"""Reads HTML and EPUB as they are in the file: nothing is fetched, no script is run."""

import base64
import posixpath
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html.entities import html5
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from lxml import etree

from ...core.errors import FileCorrupt, FileEncrypted
from .blocks import (
    PLAIN,
    Block,
    Code,
    Heading,
    Inline,
    Item,
    OfficeDocument,
    Paragraph,
    Picture,
    Pictures,
    Quote,
    Rule,
    Run,
    SpannedCell,
    Style,
    Table,
    is_blank,
    lay_out_cells,
)
from .containers import Archive
from .conventions import NUMBER_FORMATS, format_number, set_script
from .markdown import build_page
from .text import decode_markup, read_limited
from .xml_parser import DUBLIN, Element, parse_int, parse_xml

XHTML = "{http://www.w3.org/1999/xhtml}"
SKIPPED = {
    "script", "style", "noscript", "template", "svg", "iframe", "object", "embed", "canvas",
    "audio", "video", "select", "textarea", "head",
}  # fmt: skip
_BLOCK_ELEMENTS = {
    "address", "article", "aside", "body", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "html", "legend",
    "main", "nav", "p", "section", "summary", "h1", "h2", "h3", "h4", "h5", "h6", "pre",
}  # fmt: skip
_INLINE_STYLES = {
    **dict.fromkeys(("b", "strong"), Style(bold=True)),
    **dict.fromkeys(("i", "em", "cite", "dfn", "var"), Style(italic=True)),
    **dict.fromkeys(("s", "del", "strike"), Style(strike=True)),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), Style(code=True)),
}
_SPACE = re.compile(r"[ \t\n\r\f]+")
_LANGUAGE = re.compile(r"\b(?:language|lang|brush:)-?\s*([\w+#-]+)")
_HIDDEN = re.compile(r"display\s*:\s*none", re.IGNORECASE)


def read_html(path: str, pictures: Pictures) -> OfficeDocument:
    root = parse_html(read_limited(path))

    def picture(source: str, alt: str) -> Picture:
        data = decode_data_uri(source) if pictures.are_saved else None
        return Picture(alt, pictures.save(data) if data else None)

    page = build_page(1, html_blocks(root, picture), pictures)
    title = " ".join((root.findtext(".//title") or "").split())
    facts = {"title": title, "language": root.get("lang")}
    return OfficeDocument(pages=[page], facts={key: fact for key, fact in facts.items() if fact})


def parse_html(data: bytes) -> Element:
    text = decode_markup(data).replace("\0", "")
    _check_attributes(text)
    parser = etree.HTMLParser(
        encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True, huge_tree=True
    )
    root = etree.fromstring(text.encode("utf-8", "replace"), parser)
    # The parser recovers from errors, but stops silently if elements are nested too deeply.
    if any(entry.type_name == "ERR_RESOURCE_LIMIT" for entry in parser.error_log):
        raise FileCorrupt("The elements of the page are nested too deeply")
    if root is None:
        raise FileCorrupt("The page has no content")
    return root


#: Attributes of an element. The parser compares each of them with all others.
MAX_ATTRIBUTES = 500
_ATTRIBUTE = r"""
    [ \t\n\f\r/]*+ [^ \t\n\f\r/>] [^ \t\n\f\r/>=]*+
    (?: [ \t\n\f\r]*+ = [ \t\n\f\r]*+
        (?: "[^"]*+(?:"|\Z) | '[^']*+(?:'|\Z) | [^ \t\n\f\r>"'][^ \t\n\f\r>]*+ )?+ )?+"""
#: Tags with their attributes, as HTML splits a page into tokens; comments and the content of
#: elements without markup are skipped.
_TAG = re.compile(
    rf"""<!--(?:-?>|.*?(?:--!?>|\Z))
    |<(script|style|textarea|title|xmp|iframe|noembed|noframes)(?=[\s/>])
        (?P<attributes>(?:{_ATTRIBUTE})*+)[\s/]*+(?:>.*?(?:</\1(?=[\s/>])|\Z))?
    |<[a-z][^\s/>]*+(?P<others>(?:{_ATTRIBUTE})*+)""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)


def _check_attributes(text: str) -> None:
    for tag in _TAG.finditer(text):
        attributes = tag["attributes"] or tag["others"] or ""
        if len(attributes) < 2 * MAX_ATTRIBUTES:
            continue
        if sum(1 for _ in re.finditer(_ATTRIBUTE, attributes, re.VERBOSE)) > MAX_ATTRIBUTES:
            raise FileCorrupt(f"An element of the page has more than {MAX_ATTRIBUTES} attributes")


def html_blocks(root: Element, picture: Callable[[str, str], Picture]) -> list[Block]:
    """Convert elements to blocks; `picture` gets the source and alt text of each image."""
    builder = _BlockBuilder()
    walk = etree.iterwalk(root, events=("start", "end"))
    hidden: Element | None = None
    for event, element in walk:
        name = element.tag.removeprefix(XHTML) if isinstance(element.tag, str) else ""
        if event == "start":
            is_skipped = name in SKIPPED or is_hidden(element)
            if is_skipped or name == "math":
                if not is_skipped:
                    text = element.get("alttext") or " ".join("".join(element.itertext()).split())
                    builder.text(text)
                hidden = element
                walk.skip_subtree()
                continue
            builder.start(name, element)
            if name == "img":
                builder.add(picture(element.get("src") or "", element.get("alt") or ""))
            elif name == "input" and (element.get("type") or "").lower() == "checkbox":
                builder.add(Run("☒ " if element.get("checked") is not None else "☐ "))
            if element.text:
                builder.text(element.text)
            continue
        if element is not hidden:
            builder.end(name)
        hidden = None
        if element.tail and element is not root:
            builder.text(element.tail)
    return builder.blocks()


def is_hidden(element: Element) -> bool:
    return element.get("hidden") is not None or bool(_HIDDEN.search(element.get("style") or ""))


def decode_data_uri(source: str) -> bytes | None:
    """Return the content of a `data:` URI."""
    if source[:5].lower() != "data:":
        return None
    head, _, body = source[5:].partition(",")
    try:
        data = unquote_to_bytes(body)
        return base64.b64decode(data, validate=False) if head.endswith(";base64") else data
    except ValueError:
        return None


@dataclass(slots=True)
class _Level:
    """An element with blocks of its own: a quote, a cell or the page itself."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    rows: list[list[SpannedCell]] = field(default_factory=list)
    cell: Element | None = None
    #: How many lists were open around it.
    depth: int = 0


@dataclass(slots=True)
class _List:
    #: The numbering format; empty for bullets.
    form: str = ""
    count: int = 0
    marker: str = ""
    #: The list of a single item outside any list.
    is_stray: bool = False


class _BlockBuilder:
    """Builds blocks from start tags, text and end tags."""

    def __init__(self) -> None:
        self._levels = [_Level("page")]
        self._lists: list[_List] = []
        self._styles: list[Style] = [PLAIN]
        self._line: list[Inline] = []
        self._heading: int | None = None
        self._code_parts: list[str] | None = None
        self._language = ""
        self._script = ""

    def blocks(self) -> list[Block]:
        self._flush()
        return self._levels[0].blocks

    def add(self, inline: Inline) -> None:
        self._line.append(inline)

    def text(self, text: str) -> None:
        if self._code_parts is not None:
            self._code_parts.append(text)
            return
        text = _SPACE.sub(" ", text)
        last = self._line[-1] if self._line else Run(" ")
        if isinstance(last, Run) and last.text.endswith((" ", "\n")):
            text = text.lstrip(" ")
        if text:
            self._line.append(Run(set_script(text, self._script), self._styles[-1]))

    def start(self, name: str, element: Element) -> None:
        self._style(name, element)
        if name in _BLOCK_ELEMENTS:
            self._flush()
        match name:
            case "br" if self._code_parts is not None:
                self._code_parts.append("\n")
            case "br" if self._line:
                self._line.append(Run("\n"))
            case "hr":
                self._flush()
                self._add(Rule())
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                self._heading = int(name[1])
            case "ul" | "ol" | "menu" | "dir":
                self._flush()
                start = parse_int(element.get("start"), 1) - 1
                form = NUMBER_FORMATS.get(element.get("type") or "", "decimal")
                self._lists.append(_List(form if name == "ol" else "", start))
            case "li":
                self._flush()
                if len(self._lists) <= self._levels[-1].depth:
                    self._lists.append(_List(is_stray=True))
                current = self._lists[-1]
                current.count = parse_int(element.get("value"), current.count + 1)
                current.marker = f"{current.count}." if current.form == "decimal" else "-"
                if current.form not in ("", "decimal"):
                    self._line.append(Run(f"{format_number(current.count, current.form)}. "))
            case "dd":
                self._lists.append(_List(marker="-", is_stray=True))
            case "pre":
                self._code_parts = []
            case "blockquote" | "table" | "caption" | "tr" | "td" | "th":
                self._flush()
                is_in_table = any(level.name == "table" for level in self._levels)
                if is_in_table or name not in ("td", "th", "tr"):
                    self._levels.append(_Level(name, cell=element, depth=len(self._lists)))
            case "sup" | "sub":
                self._script = name
        if self._code_parts is not None and (match := _LANGUAGE.search(element.get("class") or "")):
            self._language = match[1]

    def end(self, name: str) -> None:
        self._styles.pop()
        match name:
            case "ul" | "ol" | "menu" | "dir":
                self._flush()
                if self._lists:
                    self._lists.pop()
            case "li" | "dd":
                self._flush()
                if self._lists and self._lists[-1].is_stray:
                    self._lists.pop()
            case "pre" if self._code_parts is not None:
                text = "".join(self._code_parts).replace("\r\n", "\n")
                self._code_parts = None
                self._add(Code(text, self._language))
                self._language = ""
            case "blockquote" | "table" | "caption" | "tr" | "td" | "th":
                self._close(name)
            case "sup" | "sub":
                self._script = ""
        if name in _BLOCK_ELEMENTS:
            self._flush()
            self._heading = None

    def _style(self, name: str, element: Element) -> None:
        """Push one style per open element, so that its end tag can pop it."""
        style = self._styles[-1]
        if name in _INLINE_STYLES and not (name == "code" and self._code_parts is not None):
            style = style.with_marks(_INLINE_STYLES[name])
        elif name == "a":
            style = style._replace(link=_link(element.get("href")) or style.link)
        elif name in ("table", "blockquote", "td", "th"):
            style = PLAIN
        self._styles.append(style)

    def _flush(self) -> None:
        line, self._line = self._line, []
        if is_blank(line):
            return
        level = self._levels[-1]
        if self._heading is not None:
            self._add(Heading(self._heading, line))
        elif len(self._lists) > level.depth:
            current = self._lists[-1]
            self._add(Item(len(self._lists) - level.depth - 1, current.marker, line))
            current.marker = ""
        else:
            self._add(Paragraph(line))

    def _add(self, block: Block) -> None:
        """Add a block; blocks of a table outside its cells go before the table."""
        level = next(each for each in reversed(self._levels) if each.name != "tr")
        level.blocks.append(block)

    def _close(self, name: str) -> None:
        if all(each.name != name for each in self._levels[1:]):
            return
        self._flush()
        while True:
            level = self._levels.pop()
            del self._lists[level.depth :]
            self._end_level(level)
            if level.name == name:
                return

    def _end_level(self, level: _Level) -> None:
        parent = self._levels[-1]
        match level.name:
            case "blockquote":
                self._add(Quote(level.blocks))
            case "td" | "th" if level.cell is not None:
                across = parse_int(level.cell.get("colspan"), 1)
                down = parse_int(level.cell.get("rowspan"), 1)
                if not parent.rows:
                    parent.rows.append([])
                parent.rows[-1].append(SpannedCell(level.blocks, across, down))
            case "tr":
                parent.rows += level.rows
            case "caption":
                parent.blocks += level.blocks
            case "table":
                parent.blocks += level.blocks
                cells = [spanning.cell for row in level.rows for spanning in row]
                inner = [block for cell in cells for block in cell]
                role = level.cell.get("role") if level.cell is not None else None
                # A table that is used for layout is replaced with the content of its cells.
                if role in ("presentation", "none") or any(isinstance(b, Table) for b in inner):
                    parent.blocks += inner
                elif cells:
                    parent.blocks.append(Table(lay_out_cells(level.rows)))


def _link(target: str | None) -> str | None:
    if not target or target.startswith("#"):
        return None
    scheme = re.match(r"\s*([A-Za-z][A-Za-z0-9+.-]*):", target)
    is_harmless = scheme is None or scheme[1].lower() in ("http", "https", "mailto", "tel", "ftp")
    return target if is_harmless else None


_CONTAINER = "{urn:oasis:names:tc:opendocument:xmlns:container}"
_PACKAGE = "{http://www.idpf.org/2007/opf}"
_CIPHER = "{http://www.w3.org/2001/04/xmlenc#}CipherReference"
_DECLARATION = re.compile(r"\A\s*<\?xml[^>]*\?>")
#: Including internal entity declarations: entities remain unexpanded.
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]*(?:\[.*?\]\s*)?>", re.DOTALL | re.IGNORECASE)
_ENTITY = re.compile(r"&\w+;")
_XML_ENTITIES = {"amp;", "lt;", "gt;", "quot;", "apos;"}
_ENTITIES = {f"&{name}": text for name, text in html5.items() if name not in _XML_ENTITIES}
_METADATA = {"title": "title", "creator": "author", "language": "language", "date": "created_at"}


def read_epub(archive: Archive, pictures: Pictures) -> OfficeDocument:
    path = _package_path(archive)
    package = parse_xml(archive.read(path))
    folder = posixpath.dirname(path)
    items = {
        each.get("id"): posixpath.normpath(posixpath.join(folder, unquote(each.get("href", ""))))
        for each in package.iterfind(f"{_PACKAGE}manifest/{_PACKAGE}item")
    }
    spine = package.iterfind(f"{_PACKAGE}spine/{_PACKAGE}itemref")
    names = [items[each.get("idref")] for each in spine if each.get("idref") in items]
    _reject_encrypted(archive, set(names))
    pages = []
    for number, name in enumerate(names, 1):
        blocks = _blocks(archive, name, pictures) if name in archive else []
        pages.append(build_page(number, blocks, pictures, name=posixpath.basename(name)))
    if not pages:
        raise FileCorrupt("The book has no content")
    tags = {f"{_PACKAGE}metadata/{DUBLIN}{name}": fact for name, fact in _METADATA.items()}
    facts = {fact: (package.findtext(tag) or "").strip() for tag, fact in tags.items()}
    facts = {fact: text for fact, text in facts.items() if text}
    return OfficeDocument(pages=pages, facts=facts)


def _package_path(archive: Archive) -> str:
    if "META-INF/container.xml" in archive:
        container = parse_xml(archive.read("META-INF/container.xml"))
        for each in container.iter(f"{_CONTAINER}rootfile"):
            if each.get("full-path"):
                return str(each.get("full-path"))
    raise FileCorrupt("The book has no package document")


def _reject_encrypted(archive: Archive, names: set[str]) -> None:
    """Fonts may be encrypted; if the text is, the book has DRM."""
    if "META-INF/encryption.xml" not in archive:
        return
    for each in parse_xml(archive.read("META-INF/encryption.xml")).iter(_CIPHER):
        if unquote(each.get("URI", "")) in names:
            raise FileEncrypted("The book is copy-protected")


def _blocks(archive: Archive, name: str, pictures: Pictures) -> list[Block]:
    data = archive.read(name)
    text = _DOCTYPE.sub("", _DECLARATION.sub("", decode_markup(data)), count=1)
    text = _ENTITY.sub(lambda match: _ENTITIES.get(match[0], match[0]), text)
    try:
        root = parse_xml(text.encode("utf-8", "replace"))
    except etree.XMLSyntaxError:  # an HTML parser misreads self-closing elements
        root = parse_html(data)
    for link in root.iter("a", f"{XHTML}a"):
        if not urlsplit(link.get("href") or "").scheme:  # leads nowhere in Markdown
            link.attrib.pop("href", None)

    def picture(source: str, alt: str) -> Picture:
        if not pictures.are_saved:
            return Picture(alt)
        content = decode_data_uri(source)
        path = posixpath.join(posixpath.dirname(name), unquote(urlsplit(source).path))
        path = posixpath.normpath(path)
        if content is None and source and path in archive:
            content = archive.read(path)
        return Picture(alt, pictures.save(content) if content else None)

    return html_blocks(root, picture)
