"""The Markdown of a manual, from its web pages, by pandoc: neither ours nor one of the tools."""

import gzip
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import install
from lxml import html
from lxml.html import HtmlElement

#: Brings the program pandoc in a wheel, so that it is the same everywhere.
PANDOC = ("pypandoc_binary==1.17",)
FIND = "import pypandoc; print(pypandoc.get_pandoc_path())"
FILTER = Path(__file__).with_name("plain_blocks.lua")
READS = "html-native_divs-native_spans"
LIMIT_S = 300
#: What belongs to the web page and not to the text: navigation, contents, signs beside headings.
FURNITURE = {
    "navheader", "navfooter", "toc", "list-of-tables", "list-of-figures", "sphinxsidebar",
    "related", "headerlink", "header", "nav-panel", "footer", "contents", "element-contents",
    "menu", "mini-toc", "copiable-link", "copiable-anchor", "index", "shortcontents",
}  # fmt: skip
FURNITURE_TAGS = {"script", "style", "nav", "head", "img", "object", "noscript"}
FURNITURE_IDS = {"toc", "header", "footer"}
#: Their headings are the stylesheet's: "Note".
ADMONITIONS = {"note", "tip", "warning", "caution", "important"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


def markdown_of(pages: Sequence[Path], work: Path) -> str:
    python = install.environment(work / "pandoc", PANDOC)
    found = subprocess.run([str(python), "-c", FIND], capture_output=True, text=True, check=True)
    command = [found.stdout.strip(), "--from", READS, "--to", "gfm", "--wrap", "none"]
    command += ["--lua-filter", str(FILTER)]
    given = "\n".join(_body(page) for page in pages)
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    return done.stdout


def _body(page: Path) -> str:
    content = page.read_bytes()
    if page.suffix == ".gz":
        content = gzip.decompress(content)
    declared = re.search(rb"charset=[\"']?([\w-]+)", content[:2000])
    text = content.decode(declared[1].decode() if declared else "utf-8", errors="replace")
    root = html.document_fromstring(re.sub(r"^\s*<\?xml[^>]*\?>", "", text))
    for element in list(root.iter()):
        if not isinstance(element.tag, str) or _furniture(element):
            _drop(element)
    _place_footnotes(root)
    for table in reversed(list(root.iter("table"))):
        if _for_looks(table):
            _open(table)
    for heading in root.iter(*HEADINGS):
        if _classes(heading.getparent()) & ADMONITIONS:
            heading.tag = "p"
    body = root.find("body")
    return str(html.tostring(root if body is None else body, encoding="unicode"))


def _place_footnotes(root: HtmlElement) -> None:
    """After the paragraph that refers to them, as near as in print; not at the chapter's end."""
    notes = {f"#{note.get('id')}": note for note in root.iter("div") if _is_note(note)}
    for link in list(root.iter("a")):
        note = notes.pop(link.get("href") or "", None)
        blocks = (block for block in link.iterancestors("p", "td", "dt", "li", "div", *HEADINGS))
        block = next(blocks, None)
        if note is not None and block is not None and note not in link.iterancestors():
            # A cell holds its notes; what follows it would be another cell.
            if block.tag in ("td", "li", "div"):
                block.append(note)
            else:
                block.addnext(note)


def _is_note(element: HtmlElement) -> bool:
    return "footnote" in _classes(element) and bool(element.get("id"))


def _furniture(element: HtmlElement) -> bool:
    named = (element.get("id") or "").lower() in FURNITURE_IDS and element.tag == "div"
    marked = bool(_classes(element) & FURNITURE) and element.tag not in ("body", "section", "tr")
    return element.tag in FURNITURE_TAGS or named or marked


def _classes(element: HtmlElement | None) -> set[str]:
    return set() if element is None else set((element.get("class") or "").lower().split())


def _drop(element: HtmlElement) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _for_looks(table: HtmlElement) -> bool:
    """Of one row or one column, around others, or a box around a note."""
    rows = [row for row in table.iter("tr") if row.getparent() is not None]
    width = max((len(row) for row in rows), default=0)
    note = _classes(table.getparent()) & ADMONITIONS
    return bool(note) or len(rows) < 2 or width < 2 or len(list(table.iter("table"))) > 1


def _open(table: HtmlElement) -> None:
    for part in table.iter("table", "tr", "td", "th", "tbody", "thead", "colgroup"):
        part.tag = "div"
