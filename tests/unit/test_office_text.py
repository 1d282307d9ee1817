"""Tables and plain text as Markdown."""

from pathlib import Path

import pytest

from secretary.core.errors import FileTooLarge

from ..office_files import markdown, read


def as_named(content: bytes, name: str, directory: Path) -> str:
    return markdown(content, "text", directory, name=name)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_tables_in_every_dialect(tmp_path: Path, delimiter: str, encoding: str) -> None:
    rows = ['Name{}"Größe"', '"a{}""b"""{}1.5', "c{}2"]
    text = "\r\n".join(row.replace("{}", delimiter) for row in rows) + "\r\n"
    shown = f'a{delimiter}"b"'.replace("|", "\\|").replace("\t", " ")
    assert as_named(text.encode(encoding), "Liste.CSV", tmp_path) == (
        f"| Name | Größe |\n| --- | --- |\n| {shown} | 1.5 |\n| c | 2 |\n"
    )


def test_commas_in_numbers_do_not_mislead(tmp_path: Path) -> None:
    text = b"Name;Preis;Menge\nA;1,50;2\nB;2,75;3\n"
    assert as_named(text, "a.csv", tmp_path) == (
        "| Name | Preis | Menge |\n| --- | --- | --- |\n| A | 1,50 | 2 |\n| B | 2,75 | 3 |\n"
    )


def test_a_line_that_names_the_delimiter_is_no_row(tmp_path: Path) -> None:
    assert as_named(b"sep=;\na;b\n", "a.csv", tmp_path) == "| a | b |\n| --- | --- |\n"


def test_rows_of_different_length_and_lines_in_cells(tmp_path: Path) -> None:
    assert as_named(b'a,b,c\n\n"x\ny",2\n', "a.csv", tmp_path) == (
        "| a | b | c |\n| --- | --- | --- |\n| x<br>y | 2 |  |\n"
    )
    assert read(b"a,b\n1,2\n", "text", tmp_path, name="a.csv").pages[0].text == "a\tb\n1\t2\n"


def test_a_table_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileTooLarge, match="more than 1,000 cells"):
        read(b"1,2\n" * 501, "text", tmp_path, name="a.csv", max_cells=1000)


def test_markdown_and_plain_text_stay_as_they_are(tmp_path: Path) -> None:
    text = "# Title\r\n\r\n* Grüße\r\n"
    assert as_named(text.encode("cp1252"), "a.md", tmp_path) == "# Title\n\n* Grüße\n"
    assert as_named(b"one, two\n", "a.txt", tmp_path) == "one, two\n"


def test_source_code_is_fenced(tmp_path: Path) -> None:
    assert as_named(b'{"a": "```"}', "a.json", tmp_path) == '````json\n{"a": "```"}\n````\n'
