"""Rich Text Format as Markdown."""

from pathlib import Path

import pytest

from secretary.core.errors import FileCorrupt

from ..minimal_files import PNG
from ..office_files import markdown, read

FONTS = (
    r"{\fonttbl{\f0\froman\fcharset0 Times;}{\f1\fnil\fcharset2 Symbol;}"
    r"{\f2\fswiss\fcharset204 Arial;}}"
)
STYLES = (
    r"{\stylesheet{\s0 Normal;}{\s1\outlinelevel0 heading 1;}{\s2 \'dcberschrift 2;}"
    r"{\s3 Quote;}{\s4 Source Code;}{\*\cs5 Verbatim Char;}}"
)


def rtf(body: str) -> bytes:
    head = r"{\rtf1\ansi\ansicpg1252\deff0" + FONTS + STYLES
    return (head + r"{\colortbl;\red255;}" + body + "}").encode("cp1252")


def shown(body: str, directory: Path) -> str:
    return markdown(rtf(body), "rtf", directory)


def test_headings_emphasis_and_breaks(tmp_path: Path) -> None:
    body = (
        r"\pard\s1\outlinelevel0 {\b One}\par\pard\s2 Zwei\par\pard\plain Some {\b bold} and {\b\i"
        r" both} and {\strike gone}, \line x{\super 2}{\v hidden}{\deleted old}\par"
        r"\pard\s3 {\i Wise}\par\pard\s4 a = 1\par b = {\cs5 2}\par"
    )
    assert shown(body, tmp_path) == (
        "# One\n\n## Zwei\n\nSome **bold** and ***both*** and ~~gone~~,  \nx²\n\n> Wise\n\n"
        "```\na = 1\nb = 2\n```\n"
    )


def test_letters_of_all_kinds(tmp_path: Path) -> None:
    body = (
        r"Gr\'fc\'dfe \u8364?\u-10179?\u-8704? {\f2 \'cf\'f0\'e8} {\uc2\u228ae}! a\~b\_c"
        r" \ldblquote q\rdblquote  \{x\}\\ {\f1 \'61}"
    )
    assert shown(body, tmp_path) == "Grüße €😀 При ä! a\u00a0b-c “q” {x}\\\\ \u03b1\n"


def test_lists(tmp_path: Path) -> None:
    body = (
        r"{\listtext\u61623\'3f\tab}\ilvl0 dot\par{\listtext 1.\tab}\ilvl0 one\par"
        r"{\listtext a)\tab}\ilvl1 deep\par{\pntext\'b7\tab}\pard old\par"
    )
    assert shown(body, tmp_path) == "- dot\n1. one\n   - a) deep\n- old\n"


def test_tables_with_merged_cells(tmp_path: Path) -> None:
    body = (
        r"Before\par\trowd\cellx2000\cellx3000\pard\intbl Wide\cell c\cell\row"
        r"\trowd\clvmgf\cellx1000\cellx2000\cellx3000 x\cell a|b\cell 1\cell\row"
        r"\trowd\clvmrg\cellx1000\cellx2000\cellx3000\cell two\par lines\cell 2\cell\row"
        r"\pard After\par"
    )
    assert shown(body, tmp_path) == (
        "Before\n\n| Wide |  | c |\n| --- | --- | --- |\n| x | a\\|b | 1 |\n"
        "| x | two<br>lines | 2 |\n\nAfter\n"
    )


def test_a_table_in_a_cell(tmp_path: Path) -> None:
    body = (
        r"\trowd\cellx2000\cellx4000\pard\intbl\itap2 a\nestcell b\nestcell{\*\nesttableprops"
        r"\trowd\cellx900\cellx1800\nestrow}{\nonesttables\par}\pard\intbl\itap1\cell right\cell"
        r"\row\pard end\par"
    )
    assert shown(body, tmp_path) == ("| a \\| b | right |\n| --- | --- |\n\nend\n")


def test_links_notes_and_comments(tmp_path: Path) -> None:
    body = (
        r'{\field{\*\fldinst HYPERLINK "https://a.org"}{\fldrslt here}} one{\super{\footnote'
        r" \pard Foot}} two{\footnote\ftnalt End} three{\*\atnauthor Anna}{\*\annotation Why?}\par"
        r"{\header Company}{\footer 1}"
    )
    assert shown(body, tmp_path) == (
        "[here](https://a.org) one[^1] two[^e1] three[^c1]\n\n[^1]: Foot\n\n[^e1]: End\n\n"
        "[^c1]: *Anna:* Why?\n"
    )


def test_pictures_and_text_boxes(tmp_path: Path) -> None:
    dots = PNG.hex()
    body = (
        rf"A {{\*\shppict{{\pict\pngblip {dots[:40]}" + "\n" + rf"{dots[40:]}}}}}{{\nonshppict"
        rf"{{\pict\wmetafile8 0100}}}}\par{{\shp{{\*\shpinst{{\sp{{\sn x}}{{\sv 1}}}}{{\shptxt"
        r" Inside\par}}}B\par"
    )
    page = read(rtf(body), "rtf", tmp_path, include_images=True).pages[0]
    assert page.markdown == "A ![](img-001.png)\n\nInside\n\nB\n"
    assert (tmp_path / "pictures" / "img-001.png").read_bytes() == PNG
    binary = rf"{{\pict\pngblip\bin{len(PNG)} ".encode() + PNG + b"}"
    page = read(rtf("X").replace(b"X", binary), "rtf", tmp_path, include_images=True).pages[0]
    assert page.pictures == ("img-001.png",)


def test_its_properties_and_what_it_ignores(tmp_path: Path) -> None:
    file = rtf(r"{\info{\title On rtf}{\author Anna}}{\*\generator x}{\*\unknown{\b y}}Text")
    result = read(file, "rtf", tmp_path)
    assert (result.pages[0].markdown, result.facts) == (
        "Text\n",
        {"title": "On rtf", "author": "Anna"},
    )


def test_what_ends_too_early_is_corrupt(tmp_path: Path) -> None:
    with pytest.raises(FileCorrupt):
        read(rtf("Some text")[:-1], "rtf", tmp_path)


def test_groups_may_be_nested_without_end(tmp_path: Path) -> None:
    assert shown("{" * 50_000 + "deep" + "}" * 50_000, tmp_path) == "deep\n"
