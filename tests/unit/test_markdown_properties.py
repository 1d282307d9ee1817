"""Generated Markdown contains extracted text as text, never as markup."""

import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from secretary.documents.ocr import recognition as read_lines
from secretary.documents.ocr.engines import OcrLine, OcrWord
from secretary.documents.ocr.recognition import table_markdown
from secretary.documents.office.blocks import PLAIN, Paragraph, Run
from secretary.documents.office.blocks import Table as OfficeTable
from secretary.documents.office.markdown import to_markdown
from secretary.documents.pdf.layout import blocks as layout_blocks
from secretary.documents.pdf.layout import blocks as layout_markdown
from secretary.documents.pdf.layout import rows as layout_lines
from secretary.documents.pdf.layout import tables as layout_tables
from secretary.documents.pdf.layout.blocks import BlockKind
from secretary.media.probe import Chapter
from secretary.media.speech.engines import TimedText as SpokenWord
from secretary.media.transcript import TranscriptImage, as_markdown

from ..strategies import TEXT

#: What is not plain text: it could run, link elsewhere or fetch something.
ACTIVE = {"html_block", "html_inline", "link_open", "image", "fence", "code_block"}
PIECES = st.sampled_from(
    ["<script>", "</p>", "[a](http://x)", "![a](x)", "`", "```", "    a", "\t", "# ", "- ", "1. ",
     "> ", "---", "***", "_", "*", "\\", "|", "&lt;", "http://x", "<http://x>", "[^1]", "\n", "a",
     "é", " ", ":", "===", "+ ", "~~~", "2) "]
)  # fmt: skip
WORDS = st.lists(PIECES, max_size=8).map("".join) | TEXT


def tokens_of(markdown: str) -> list[Token]:
    tokens = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        tokens += [token, *(token.children or ())]
    return tokens


@given(
    st.lists(st.builds(SpokenWord, st.floats(0, 1e5), st.floats(0, 1e5), WORDS), max_size=5),
    st.none() | WORDS,
    st.lists(
        st.builds(Chapter, start=st.floats(0, 1e5), end=st.just(1e5), title=WORDS), max_size=2
    ),
    st.lists(
        st.builds(
            TranscriptImage, time=st.floats(0, 1e5), file=st.just("frame_001.jpg"), text=WORDS
        ),
        max_size=2,
    ),
)
@settings(max_examples=50)
def test_what_was_said_stays_text(
    words: list[SpokenWord],
    title: str | None,
    chapters: list[Chapter],
    pictures: list[TranscriptImage],
) -> None:
    words = sorted(SpokenWord(min(one[:2]), max(one[:2]), one.text) for one in words)
    markdown = "".join(as_markdown(words, title=title, chapters=chapters, images=pictures))
    tokens = tokens_of(markdown)
    active = [token for token in tokens if token.type in ACTIVE]
    assert [token.attrs.get("src") for token in active] == ["frame_001.jpg"] * len(pictures)
    headings = [token for token in tokens if token.type == "heading_open"]
    assert len(headings) == len(chapters) + bool(title)


@st.composite
def lines(draw: st.DrawFn) -> list[OcrLine]:
    ocr_lines = []
    for number in range(draw(st.integers(0, 8))):
        at, words = 0, []
        for text in draw(st.lists(WORDS.filter(lambda t: t.strip()), min_size=1, max_size=4)):
            at += draw(st.sampled_from((5, 200)))
            words.append(OcrWord(" ".join(text.split()), at, at + 10 * len(text)))
            at += 10 * len(text)
        ocr_lines.append(
            OcrLine(
                text=" ".join(word.text for word in words),
                words=tuple(words),
                confidence=90.0,
                box=(words[0].left, 20 * number, at, 20 * number + 15),
                baseline=20 * number + 14.0,
                height=draw(st.sampled_from((8.0, 12.0, 30.0))),
                block=draw(st.integers(0, 1)),
            )
        )
    return ocr_lines


@given(lines())
@settings(max_examples=50)
def test_what_was_recognised_stays_text(ocr_lines: list[OcrLine]) -> None:
    markdown = read_lines.as_markdown(ocr_lines)
    tokens = tokens_of(markdown)
    assert [token.type for token in tokens if token.type in ACTIVE] == []
    text = read_lines.as_text(ocr_lines)
    assert letters(text) == letters("".join(line.text for line in ocr_lines))


@given(st.integers(1, 4), st.data())
@settings(max_examples=50)
def test_a_table_has_the_cells_it_was_given(width: int, data: st.DataObject) -> None:
    row = st.lists(WORDS.map(lambda text: " ".join(text.split())), min_size=width, max_size=width)
    rows = data.draw(st.lists(row, min_size=2, max_size=4))
    tokens = tokens_of(table_markdown(rows))
    cells = [token for token in tokens if token.type in ("th_open", "td_open")]
    assert len(cells) == width * len(rows)
    assert [token.type for token in tokens if token.type in ACTIVE] == []


def pdf_line(text: str, mono: bool) -> layout_lines.TextLine:
    return layout_lines.TextLine(text, 0.0, 90.0, 10.0, 12.0, False, False, mono, False)


#: A figure is an image, not text.
KINDS = [kind for kind in BlockKind if kind is not BlockKind.FIGURE]


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.lists(WORDS, min_size=1, max_size=4))))
@settings(max_examples=50)
def test_what_a_page_of_a_pdf_holds_stays_text(contents: list[tuple[BlockKind, list[str]]]) -> None:
    blocks = []
    for kind, texts in contents:
        texts = [" ".join(text.replace("\0", "").split()) or "x" for text in texts]
        if kind is BlockKind.TABLE:
            table = layout_tables.Table([texts, texts], 0, 90, 10, 0, 12)
            blocks.append(layout_blocks.Block(kind, table=table))
            continue
        lines = [pdf_line(text, kind is BlockKind.CODE) for text in texts]
        level = 1 if kind is BlockKind.HEADING else 0
        blocks.append(layout_blocks.Block(kind, lines, level=level, marker="-"))
    tokens = tokens_of(layout_markdown.to_markdown(blocks))
    active = [token.type for token in tokens if token.type in ACTIVE]
    listings = [block for block in blocks if block.kind is BlockKind.CODE]
    assert active == ["fence"] * len(listings)
    fences = [token.content for token in tokens if token.type == "fence"]
    assert fences == ["".join(f"{line.text}\n" for line in block.lines) for block in listings]


@given(st.lists(WORDS, max_size=4), st.lists(WORDS, min_size=1, max_size=3))
@settings(max_examples=50)
def test_what_an_office_file_holds_stays_text(texts: list[str], cells: list[str]) -> None:
    blocks: list[Any] = [Paragraph((Run(text, PLAIN),)) for text in texts]
    blocks.append(OfficeTable(tuple(((Paragraph((Run(text, PLAIN),)),),) for text in cells)))
    tokens = tokens_of(to_markdown(blocks))
    active = [token for token in tokens if token.type in ACTIVE]
    assert [token.content for token in active if token.content != "<br>"] == []


def letters(text: str) -> list[Any]:
    """The letters, which are kept however lines are joined."""
    return sorted(re.findall(r"[a-z]", text))
