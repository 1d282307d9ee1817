"""PowerPoint presentations as Markdown."""

from pathlib import Path
from typing import Any

from PIL import Image
from pptx import Presentation
from pptx.chart.data import CategoryChartData
from pptx.enum.chart import XL_CHART_TYPE
from pptx.oxml import parse_xml
from pptx.util import Inches

from secretary.documents.office.pptx import Box, sort_by_position

from ..office_files import markdown, read

TITLE_AND_BODY, TITLE_ONLY, BLANK = 1, 5, 6
A = 'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"'


def slide_of(presentation: Any, layout: int, title: str = "") -> Any:
    slide = presentation.slides.add_slide(presentation.slide_layouts[layout])
    if title:
        slide.shapes.title.text = title
    return slide


def saved(presentation: Any, directory: Path) -> Path:
    path = directory / "made.pptx"
    presentation.save(str(path))
    return path


def box(slide: Any, text: str, left: float, top: float) -> Any:
    shape = slide.shapes.add_textbox(Inches(left), Inches(top), Inches(2), Inches(0.5))
    shape.text_frame.text = text
    return shape


def test_titles_bullets_and_notes(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, TITLE_AND_BODY, "Agenda")
    frame = slide.placeholders[1].text_frame
    frame.text = "First"
    for text, level in (("Sub", 1), ("Second", 0)):
        paragraph = frame.add_paragraph()
        paragraph.text, paragraph.level = text, level
    frame.paragraphs[2].runs[0].font.bold = True
    slide.notes_slide.notes_text_frame.text = "Speak slowly"
    slide_of(presentation, TITLE_ONLY, "Two\vlines")
    pages = read(saved(presentation, tmp_path), "pptx", tmp_path).pages
    assert [page.markdown for page in pages] == [
        "# Agenda\n\n- First\n  - Sub\n- **Second**\n\n## Notes\n\nSpeak slowly\n",
        "# Two lines\n",
    ]
    assert pages[0].text == "Agenda\n- First\n  - Sub\n- Second\nNotes\nSpeak slowly\n"


def test_numbered_bullets_and_paragraphs_without_any(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, TITLE_AND_BODY, "T")
    frame = slide.placeholders[1].text_frame
    marks = ("buNone/", 'buAutoNum type="arabicPeriod"/', 'buAutoNum type="arabicPeriod"/',
             'buAutoNum type="alphaLcParenR"/')  # fmt: skip
    for number, mark in enumerate(marks):
        paragraph = frame.paragraphs[0] if not number else frame.add_paragraph()
        paragraph.text = f"p{number}"
        paragraph._p.get_or_add_pPr().append(parse_xml(f"<a:{mark[:-1]} {A}/>"))
    assert markdown(saved(presentation, tmp_path), "pptx", tmp_path) == (
        "# T\n\np0\n\n1. p1\n2. p2\n- a) p3\n"
    )


def test_shapes_are_read_by_their_place_not_their_age(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, BLANK)
    box(slide, "bottom", 1, 5)
    box(slide, "right", 5, 1)
    box(slide, "left", 1, 1.1)
    text = markdown(saved(presentation, tmp_path), "pptx", tmp_path)
    assert text == "left\n\nright\n\nbottom\n"


def test_columns_are_read_one_after_the_other() -> None:
    left = [Box(0, 0, 10, 30), Box(0, 32, 10, 30)]
    right = [Box(20, 10, 10, 30), Box(20, 45, 10, 30)]
    shapes = [(right[0], "r1"), (left[1], "l2"), (right[1], "r2"), (left[0], "l1"), (None, "n")]
    assert sort_by_position(shapes) == ["l1", "n", "l2", "r1", "r2"]


def test_groups_are_opened(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, BLANK)
    group = slide.shapes.add_group_shape()
    for text, top in (("second", 3), ("first", 2)):
        shape = group.shapes.add_textbox(Inches(1), Inches(top), Inches(2), Inches(0.4))
        shape.text_frame.text = text
    assert markdown(saved(presentation, tmp_path), "pptx", tmp_path) == "first\n\nsecond\n"


def test_tables_with_merged_cells(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, BLANK)
    table = slide.shapes.add_table(3, 2, 0, 0, Inches(4), Inches(2)).table
    for number, text in enumerate(("Head", "", "a", "b", "", "c|d")):
        table.cell(number // 2, number % 2).text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 0).merge(table.cell(2, 0))
    assert markdown(saved(presentation, tmp_path), "pptx", tmp_path) == (
        "| Head |  |\n| --- | --- |\n| a | b |\n| a | c\\|d |\n"
    )


def test_charts_tell_their_numbers(tmp_path: Path) -> None:
    presentation = Presentation()
    slide = slide_of(presentation, BLANK)
    data: Any = CategoryChartData()  # type: ignore[no-untyped-call]  # untyped
    data.categories = ["Q1", "Q2"]
    data.add_series("Sales", (1.5, 2))
    data.add_series("Costs", (1, None))
    chart = slide.shapes.add_chart(
        XL_CHART_TYPE.COLUMN_CLUSTERED, 0, 0, Inches(4), Inches(2), data
    ).chart
    chart.has_title = True
    chart.chart_title.text_frame.text = "Results"
    assert markdown(saved(presentation, tmp_path), "pptx", tmp_path) == (
        "**Results**\n\n|  | Sales | Costs |\n| --- | --- | --- |\n"
        "| Q1 | 1.5 | 1 |\n| Q2 | 2 |  |\n"
    )


def test_links_and_pictures_of_a_slide(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    presentation = Presentation()
    slide = slide_of(presentation, BLANK)
    run = box(slide, "", 1, 1).text_frame.paragraphs[0].add_run()
    run.text, run.hyperlink.address = "site", "https://example.org"
    picture = slide.shapes.add_picture(str(tmp_path / "red.png"), Inches(1), Inches(3))
    picture._element.nvPicPr.cNvPr.set("descr", "Red [square]")
    path = saved(presentation, tmp_path)
    page = read(path, "pptx", tmp_path, include_images=True).pages[0]
    assert page.markdown == ("[site](https://example.org)\n\n![Red \\[square\\]](img-001.png)\n")
    assert page.pictures == ("img-001.png",)
    assert markdown(path, "pptx", tmp_path) == "[site](https://example.org)\n\nRed [square]\n"


def test_hidden_slides_are_pages_that_say_so(tmp_path: Path) -> None:
    presentation = Presentation()
    slide_of(presentation, TITLE_ONLY, "Seen")
    slide_of(presentation, TITLE_ONLY, "Unseen")._element.set("show", "0")
    pages = read(saved(presentation, tmp_path), "pptx", tmp_path).pages
    assert [(page.number, page.facts["is_hidden"]) for page in pages] == [(1, False), (2, True)]
    assert pages[1].markdown == "# Unseen (hidden)\n"


def test_the_file_order_of_slides_does_not_matter(tmp_path: Path) -> None:
    presentation = Presentation()
    for title in ("One", "Two"):
        slide_of(presentation, TITLE_ONLY, title)
    slides = presentation.slides._sldIdLst
    slides.append(slides[0])
    assert markdown(saved(presentation, tmp_path), "pptx", tmp_path) == "# Two\n\n# One\n"
