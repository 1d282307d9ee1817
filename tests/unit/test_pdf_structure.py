"""Tagged PDFs: what the file says about its own structure."""

from pathlib import Path

from secretary.documents.pdf.pages import FontStats, read_page
from secretary.documents.pdf.pdfium import open_page, open_pdf

from ..minimal_files import FONT, written


def tagged(kinds: list[str], texts: list[str], parents: list[int], kids: dict[int, str]) -> bytes:
    """`kinds`: the elements of the tree; `parents`: the element of each line of text; `kids`: the
    children of elements other than such lines."""
    lines = b"".join(
        b"/Span << /MCID %d >> BDC BT /F1 11 Tf %d %d Td (%s) Tj ET EMC\n"
        % (n, 72 + 130 * (n % 2 if "TD" in kinds else 0), 700 - 30 * n, text.encode())
        for n, text in enumerate(texts)
    )
    first = 7
    held = {
        n: kids.get(n) or " ".join(str(marker) for marker, p in enumerate(parents) if p == n)
        for n in range(len(kinds))
    }
    above = {int(name): first + n for n, held in kids.items() for name in held.split()[::3]}
    elements = [
        f"<< /Type /StructElem /S /{kind} /P {above.get(first + n, 6)} 0 R"
        f" /Pg 5 0 R /K [{held[n]}] >>".encode()
        for n, kind in enumerate(kinds)
    ]
    roots = " ".join(f"{first + n} 0 R" for n in range(len(kinds)) if first + n not in above)
    nums = " ".join(f"{first + parent} 0 R" for parent in parents)
    return written(
        [
            b"<< /Type /Catalog /Pages 2 0 R /MarkInfo << /Marked true >> /StructTreeRoot 6 0 R >>",
            b"<< /Type /Pages /Kids [5 0 R] /Count 1 >>",
            FONT,
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(lines), lines),
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R"
            b" /StructParents 0 /Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Type /StructTreeRoot /K [{roots}]"
            f" /ParentTree << /Nums [0 [{nums}]] >> >>".encode(),
            *elements,
        ]
    )


def to_markdown(tmp_path: Path, content: bytes) -> str:
    path = tmp_path / "a.pdf"
    path.write_bytes(content)
    with open_pdf(str(path)) as document, open_page(document, 1) as page:
        return read_page(page, FontStats(document)).markdown


def test_headings_are_those_that_are_tagged(tmp_path: Path) -> None:
    kinds = ["H2", "P", "H3", "P"]
    texts = ["Small but a heading", "Then text.", "Another heading", "And more text."]
    assert to_markdown(tmp_path, tagged(kinds, texts, [0, 1, 2, 3], {})) == (
        "## Small but a heading\n\nThen text.\n\n### Another heading\n\nAnd more text."
    )


def test_an_item_needs_no_mark_of_its_own(tmp_path: Path) -> None:
    kinds = ["P", "LI", "LI"]
    texts = ["There are:", "apples", "pears"]
    content = tagged(kinds, texts, [0, 1, 2], {})
    assert to_markdown(tmp_path, content) == "There are:\n\n- apples\n- pears"


def test_cells_are_those_that_are_tagged(tmp_path: Path) -> None:
    kinds = ["Table", "TR", "TR", "TD", "TD", "TD", "TD"]
    texts = ["Ship", "Cargo", "Anna", "salt"]
    kids = {0: "8 0 R 9 0 R", 1: "10 0 R 11 0 R", 2: "12 0 R 13 0 R"}
    content = tagged(kinds, texts, [3, 4, 5, 6], kids)
    # Each cell is on a line of its own: without the tags this is not a table.
    expected = "| Ship | Cargo |\n| --- | --- |\n| Anna | salt |"
    assert to_markdown(tmp_path, content) == expected


def test_tags_that_leave_out_most_of_the_text_are_not_believed(tmp_path: Path) -> None:
    texts = ["One", "A line of text that no tag mentions.", "And one more of them."]
    content = tagged(["H1"], texts, [0], {}).replace(b"/MCID 1", b"/MCID 7")
    assert not to_markdown(tmp_path, content).startswith("#")
