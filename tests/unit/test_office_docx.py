"""Word documents as Markdown."""

import io
import zipfile
from pathlib import Path

import docx
from docx.enum.style import WD_STYLE_TYPE
from PIL import Image

from ..minimal_files import zipped
from ..office_files import M, W, docx_of, markdown, paragraph, read

PICTURE = (
    '<w:drawing><wp:inline xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/'
    'wordprocessingDrawing"><wp:docPr id="1" name="Grafik 1" descr="{alt}"/>'
    '<a:graphic xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main"><a:graphicData>'
    '<pic:pic xmlns:pic="http://schemas.openxmlformats.org/drawingml/2006/picture"><pic:blipFill>'
    '<a:blip r:embed="{id}"/></pic:blipFill></pic:pic></a:graphicData></a:graphic></wp:inline>'
    "</w:drawing>"
)


def saved(document: "docx.document.Document", directory: Path) -> Path:
    path = directory / "made.docx"
    document.save(str(path))
    return path


def numbering(*levels: tuple[str, str]) -> str:
    """One list (number 1) whose levels have these formats and texts."""
    written = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{form}"/>'
        f'<w:lvlText w:val="{text}"/></w:lvl>'
        for at, (form, text) in enumerate(levels)
    )
    return (
        f'<w:numbering {W}><w:abstractNum w:abstractNumId="0">{written}</w:abstractNum>'
        '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
    )


def numbered(text: str, level: int = 0, number: int = 1) -> str:
    properties = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>'
    return paragraph(text, properties)


def notes(name: str, attributes: str, text: str) -> str:
    return f"<w:{name}s {W}><w:{name} {attributes}>{paragraph(text)}</w:{name}></w:{name}s>"


def test_headings_paragraphs_and_emphasis(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("The title", 0)
    document.add_heading("First", 1)
    line = document.add_paragraph("Some ")
    line.add_run("bold ").bold = True
    line.add_run("and ")
    both = line.add_run("both")
    both.bold = both.italic = True
    line.add_run(" and ")
    line.add_run("gone").font.strike = True
    line.add_run(".")
    document.add_heading("Second", 2)
    document.add_paragraph("one\ntwo")
    document.add_paragraph("Wise words", style="Quote")
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "# The title\n\n# First\n\nSome **bold** and ***both*** and ~~gone~~.\n\n## Second\n\n"
        "one  \ntwo\n\n> Wise words\n"
    )


def test_plain_text_has_no_marks(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("Title", 1)
    document.add_paragraph("a").add_run(" *b*").bold = True
    document.add_paragraph("item", style="List Bullet")
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "x|y", "two\nlines"
    text = read(saved(document, tmp_path), "docx", tmp_path).pages[0].text
    assert text == "Title\na *b*\n- item\nx|y\ttwo lines\n"


def test_localised_and_derived_heading_styles_are_headings(tmp_path: Path) -> None:
    document = docx.Document()
    german = document.styles.add_style("Überschrift 2", WD_STYLE_TYPE.PARAGRAPH)
    own = document.styles.add_style("Chapter", WD_STYLE_TYPE.PARAGRAPH)
    own.base_style = document.styles["Heading 3"]
    document.add_paragraph("Zwei", style=german)
    document.add_paragraph("Three", style=own)
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == "## Zwei\n\n### Three\n"


def test_an_outline_level_makes_a_heading(tmp_path: Path) -> None:
    body = paragraph("Deep", '<w:outlineLvl w:val="3"/>') + paragraph(
        "Body", '<w:outlineLvl w:val="9"/>'
    )
    assert markdown(docx_of(body), "docx", tmp_path) == "#### Deep\n\nBody\n"


def test_lists_have_levels_and_numbers(tmp_path: Path) -> None:
    levels = numbering(("decimal", "%1."), ("lowerLetter", "%2)"), ("bullet", "o"))
    body = "".join(
        [
            numbered("one"), numbered("sub", 1), numbered("sub", 1), numbered("dot", 2),
            numbered("two"), numbered("again", 1), paragraph("Between"), numbered("three"),
        ]
    )  # fmt: skip
    assert markdown(docx_of(body, numbering=levels), "docx", tmp_path) == (
        "1. one\n   - a) sub\n   - b) sub\n     - dot\n2. two\n   - a) again\n\n"
        "Between\n\n3. three\n"
    )


def test_numbered_headings_keep_their_numbers(tmp_path: Path) -> None:
    styles = (
        f'<w:styles {W}><w:style w:type="paragraph" w:styleId="h1"><w:name w:val="heading 1"/>'
        '<w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style>'
        '<w:style w:type="paragraph" w:styleId="h2"><w:name w:val="heading 2"/><w:pPr><w:numPr>'
        '<w:ilvl w:val="1"/><w:numId w:val="1"/></w:numPr></w:pPr></w:style></w:styles>'
    )
    levels = numbering(("upperRoman", "§ %1"), ("decimal", "%1.%2"))
    body = "".join(
        paragraph(text, f'<w:pStyle w:val="{style}"/>')
        for text, style in (("A", "h1"), ("B", "h1"), ("C", "h2"))
    )
    file = docx_of(body, styles=styles, numbering=levels)
    assert markdown(file, "docx", tmp_path) == "# § I A\n\n# § II B\n\n## II.1 C\n"


def test_tables_stay_in_place_and_merged_cells_are_filled(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_paragraph("Before")
    table = document.add_table(3, 3)
    for number, text in enumerate(("Region", "", "2024", "North", "a|b", "1", "", "c", "2")):
        table.cell(number // 3, number % 3).text = text
    table.cell(0, 0).merge(table.cell(0, 1))
    table.cell(1, 0).merge(table.cell(2, 0))
    table.cell(1, 1).text = "a|b\nc"
    document.add_paragraph("After")
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "Before\n\n| Region |  | 2024 |\n| --- | --- | --- |\n| North | a\\|b<br>c | 1 |\n"
        "| North | c | 2 |\n\nAfter\n"
    )


def test_a_nested_table_is_printed_in_its_cell(tmp_path: Path) -> None:
    document = docx.Document()
    table = document.add_table(1, 2)
    table.cell(0, 0).text = "outer"
    inner = table.cell(0, 1).add_table(2, 2)
    for number, text in enumerate("abcd"):
        inner.cell(number // 2, number % 2).text = text
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "| outer | a \\| b<br>c \\| d |\n| --- | --- |\n"
    )


def test_a_table_of_one_cell_is_a_box(tmp_path: Path) -> None:
    document = docx.Document()
    cell = document.add_table(1, 1).cell(0, 0)
    cell.text = "Mind the gap"
    cell.add_paragraph("Always")
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == "Mind the gap\n\nAlways\n"


def test_insertions_are_in_and_deletions_are_out(tmp_path: Path) -> None:
    body = (
        "<w:p><w:r><w:t>We </w:t></w:r><w:del><w:r><w:delText>never </w:delText></w:r></w:del>"
        "<w:ins><w:r><w:t>always </w:t></w:r></w:ins>"
        "<w:moveFrom><w:r><w:t>x</w:t></w:r></w:moveFrom>"
        "<w:moveTo><w:r><w:t>win</w:t></w:r></w:moveTo></w:p>"
        "<w:p><w:pPr><w:rPr><w:del/></w:rPr></w:pPr><w:r><w:t>one </w:t></w:r></w:p>"
        "<w:p><w:r><w:t>line</w:t></w:r></w:p>"
        "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p/></w:tc></w:tr>"
        "<w:tr><w:trPr><w:del/></w:trPr><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>"
    )
    assert markdown(docx_of(body), "docx", tmp_path) == (
        "We always win\n\none line\n\n| a |  |\n| --- | --- |\n"
    )


def test_links_and_fields_show_their_results(tmp_path: Path) -> None:
    body = (
        '<w:p><w:hyperlink r:id="x"><w:r><w:t>here</w:t></w:r></w:hyperlink>'
        "<w:r><w:t> and </w:t></w:r>"
        '<w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        '<w:r><w:instrText> HYPERLINK "https://b.org" </w:instrText></w:r>'
        '<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>there</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
        '<w:fldSimple w:instr="DATE"><w:r><w:t>, today</w:t>'
        '</w:r></w:fldSimple><w:hyperlink w:anchor="m"><w:r><w:t>!</w:t></w:r></w:hyperlink></w:p>'
    )
    file = docx_of(body, {"x": ("hyperlink", "https://a.org/q(1)")})
    assert markdown(file, "docx", tmp_path) == (
        "[here](https://a.org/q%281%29) and [there](https://b.org), today!\n"
    )


def test_fields_that_show_their_instruction(tmp_path: Path) -> None:
    body = (
        '<w:p><w:r><w:t>Dear </w:t></w:r><w:r><w:fldChar w:fldCharType="begin"/></w:r>'
        "<w:r><w:instrText>MACROBUTTON NoMacro [your name]</w:instrText></w:r>"
        '<w:r><w:fldChar w:fldCharType="end"/></w:r></w:p>'
    )
    assert markdown(docx_of(body), "docx", tmp_path) == "Dear [your name]\n"


def test_footnotes_endnotes_and_comments_become_notes(tmp_path: Path) -> None:
    body = (
        '<w:p><w:r><w:t>One</w:t></w:r><w:r><w:footnoteReference w:id="7"/></w:r>'
        "<w:r><w:t> two</w:t></w:r>"
        '<w:r><w:endnoteReference w:id="3"/></w:r><w:r><w:t> three</w:t></w:r>'
        '<w:r><w:commentReference w:id="0"/></w:r></w:p>' + paragraph("Last")
    )
    file = docx_of(
        body,
        footnotes=notes("footnote", 'w:id="7"', "Foot"),
        endnotes=notes("endnote", 'w:id="3"', "End"),
        comments=notes("comment", 'w:id="0" w:author="Anna"', "Why?"),
    )
    assert markdown(file, "docx", tmp_path) == (
        "One[^1] two[^e1] three[^c1]\n\nLast\n\n[^1]: Foot\n\n[^e1]: End\n\n[^c1]: *Anna:* Why?\n"
    )
    assert read(file, "docx", tmp_path).pages[0].text == (
        "One[1] two[e1] three[c1]\nLast\n[1] Foot\n[e1] End\n[c1] Anna: Why?\n"
    )


def test_text_boxes_follow_their_paragraph_once(tmp_path: Path) -> None:
    box = "<w:txbxContent>" + paragraph("Boxed") + "</w:txbxContent>"
    body = (
        "<w:p><w:r><w:t>Anchor</w:t></w:r><w:r><mc:AlternateContent><mc:Choice><w:drawing>"
        f"{box}</w:drawing></mc:Choice><mc:Fallback><w:pict>{box}</w:pict></mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    )
    assert markdown(docx_of(body), "docx", tmp_path) == "Anchor\n\nBoxed\n"


def test_charts_and_diagrams_tell_what_is_in_them(tmp_path: Path) -> None:
    space = "http://schemas.openxmlformats.org/drawingml/2006"
    points = "<c:{0}><c:pt idx='0'><c:v>{1}</c:v></c:pt><c:pt idx='1'><c:v>{2}</c:v></c:pt></c:{0}>"
    chart = (
        f'<c:chartSpace xmlns:c="{space}/chart"><c:ser><c:tx><c:v>Sales</c:v></c:tx>'
        f"{points.format('cat', 'Q1', 'Q2')}{points.format('val', '1', '2.5')}</c:ser>"
        "</c:chartSpace>"
    )
    points = "<dgm:pt><dgm:t><a:p><a:r><a:t>{}</a:t></a:r></a:p></dgm:t></dgm:pt>"
    diagram = (
        f'<dgm:dataModel xmlns:dgm="{space}/diagram" xmlns:a="{space}/main"><dgm:ptLst>'
        f"{points.format('Plan')}<dgm:pt/>{points.format('Do')}</dgm:ptLst></dgm:dataModel>"
    )
    body = (
        f'<w:p><w:r><w:drawing><c:chart xmlns:c="{space}/chart" r:id="chart"/></w:drawing></w:r>'
        f'</w:p><w:p><w:r><w:drawing><dgm:relIds xmlns:dgm="{space}/diagram" r:dm="diagramData"/>'
        "</w:drawing></w:r></w:p>"
    )
    assert markdown(docx_of(body, chart=chart, diagramData=diagram), "docx", tmp_path) == (
        "|  | Sales |\n| --- | --- |\n| Q1 | 1 |\n| Q2 | 2.5 |\n\n- Plan\n- Do\n"
    )


def test_listings_and_code_are_code(tmp_path: Path) -> None:
    document = docx.Document()
    code = document.styles.add_style("Source Code", WD_STYLE_TYPE.PARAGRAPH)
    word = document.styles.add_style("Verbatim Char", WD_STYLE_TYPE.CHARACTER)
    document.add_paragraph("Call ").add_run("f(*a)", style=word)
    document.add_paragraph("def f():", style=code)
    document.add_paragraph("    return 1", style=code)
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "Call `f(*a)`\n\n```\ndef f():\n    return 1\n```\n"
    )


def test_equations_are_latex(tmp_path: Path) -> None:
    def run(text: str) -> str:
        return f"<m:r><m:t>{text}</m:t></m:r>"

    fraction = f"<m:f><m:num>{run('a')}</m:num><m:den>{run('b')}</m:den></m:f>"
    power = f"<m:sSup><m:e>{run('x')}</m:e><m:sup>{run('2')}</m:sup></m:sSup>"
    total = (
        f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{run("i=1")}</m:sub>'
        f"<m:sup>{run('n')}</m:sup><m:e>{run('i')}</m:e></m:nary>"
    )
    root = f"<m:rad><m:deg/><m:e>{run('y')}</m:e></m:rad>"
    body = f"<w:p><w:r><w:t>So </w:t></w:r><m:oMath {M}>{fraction}{run('+')}{power}</m:oMath></w:p>"
    body += f"<w:p><m:oMathPara><m:oMath>{total}{run('=')}{root}</m:oMath></m:oMathPara></w:p>"
    assert markdown(docx_of(body), "docx", tmp_path) == (
        "So $\\frac{a}{b}+x^{2}$\n\n$\\sum_{i=1}^{n} i=\\sqrt{y}$\n"
    )


def test_pictures_are_kept_in_place(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4), "red").save(tmp_path / "red.png")
    document = docx.Document()
    document.add_paragraph("Before")
    document.add_picture(str(tmp_path / "red.png"))
    document.add_picture(str(tmp_path / "red.png"))
    document.add_paragraph("After")
    page = read(saved(document, tmp_path), "docx", tmp_path, include_images=True).pages[0]
    assert page.markdown == "Before\n\n![](img-001.png)\n\n![](img-001.png)\n\nAfter\n"
    assert page.pictures == ("img-001.png",)
    image = (tmp_path / "pictures" / "img-001.png").read_bytes()
    assert image == (tmp_path / "red.png").read_bytes()


def test_without_pictures_their_descriptions_stay(tmp_path: Path) -> None:
    body = f"<w:p><w:r>{PICTURE.format(alt='A red square', id='p')}</w:r></w:p>"
    body += f"<w:p><w:r>{PICTURE.format(alt='', id='p')}</w:r></w:p>"
    page = read(docx_of(body), "docx", tmp_path).pages[0]
    assert (page.markdown, page.pictures) == ("A red square\n", ())
    assert not list((tmp_path / "pictures").iterdir())


def test_a_metafile_is_kept_but_not_shown(tmp_path: Path) -> None:
    metafile = b"\x01\x00\x00\x00" + bytes(36) + b" EMF" + bytes(60)
    body = f"<w:p><w:r>{PICTURE.format(alt='A plan', id='media')}</w:r></w:p>"
    file = docx_of(body, {"media": ("image", "media.xml")}, media=metafile)
    page = read(file, "docx", tmp_path, include_images=True).pages[0]
    assert (page.markdown, page.pictures) == ("[A plan](img-001.emf)\n", ("img-001.emf",))


def test_headers_footers_and_hidden_text_are_left_out(tmp_path: Path) -> None:
    document = docx.Document()
    document.sections[0].header.paragraphs[0].text = "Company"
    document.sections[0].footer.paragraphs[0].text = "Page 1"
    line = document.add_paragraph("Seen")
    line.add_run("unseen").font.hidden = True
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == "Seen\n"


def test_signs_boxes_and_raised_digits(tmp_path: Path) -> None:
    tick = '<w14:checked w14:val="1"/>'
    name = 'xmlns:w14="http://schemas.microsoft.com/office/word/2010/wordml"'
    body = (
        f"<w:p><w:sdt {name}><w:sdtPr><w14:checkbox>{tick}</w14:checkbox></w:sdtPr><w:sdtContent>"
        "<w:r><w:t>X</w:t></w:r></w:sdtContent></w:sdt>"
        '<w:r><w:sym w:font="Wingdings" w:char="F0A8"/></w:r>'
        '<w:r><w:t xml:space="preserve"> 5 m</w:t>'
        '</w:r><w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>2</w:t></w:r></w:p>'
    )
    assert markdown(docx_of(body), "docx", tmp_path) == "☒☐ 5 m²\n"


def test_characters_that_markdown_would_take_for_marks_are_escaped(tmp_path: Path) -> None:
    texts = {
        "a *star* and 2 * 3": "a \\*star\\* and 2 * 3",
        "snake_case and _this_": "snake_case and \\_this\\_",
        "__init__": "\\_\\_init\\_\\_",
        "&lt;b> &amp;amp; `x` [y](z) [w]": "\\<b> \\&amp; \\`x\\` \\[y](z) [w]",
        "# no heading": "\\# no heading",
        "1. stays a number": "1. stays a number",
    }
    body = "".join(paragraph(text) for text in texts)
    assert markdown(docx_of(body), "docx", tmp_path) == "\n\n".join(texts.values()) + "\n"


def test_marks_are_put_where_they_are_marks(tmp_path: Path) -> None:
    document = docx.Document()
    for before, bold, after in (
        ("", "Note:", "text"), ("see", "(here)", "now"), ("a ", "b ", "c"), ("x", "...", "y"),
        ("", "A: ", "b"),
    ):  # fmt: skip
        line = document.add_paragraph(before)
        line.add_run(bold).bold = True
        line.add_run(after)
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "**Note**:text\n\nsee(**here**)now\n\na **b** c\n\nx...y\n\n**A:** b\n"
    )


def test_signs_are_not_escaped_where_they_mean_nothing(tmp_path: Path) -> None:
    document = docx.Document()
    document.add_heading("*All* > # 1", 1)
    table = document.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "> 5", "# 1"
    assert markdown(saved(document, tmp_path), "docx", tmp_path) == (
        "# \\*All\\* > # 1\n\n| > 5 | # 1 |\n| --- | --- |\n"
    )


def test_document_properties_are_returned(tmp_path: Path) -> None:
    document = docx.Document()
    document.core_properties.title = "On documents"
    document.core_properties.author = "Anna"
    facts = read(saved(document, tmp_path), "docx", tmp_path).facts
    assert (facts["title"], facts["author"]) == ("On documents", "Anna")


def test_a_strict_document_is_read_as_any_other(tmp_path: Path) -> None:
    usual = "http://schemas.openxmlformats.org/"
    with zipfile.ZipFile(
        io.BytesIO(docx_of(paragraph("Strict", '<w:outlineLvl w:val="0"/>')))
    ) as file:
        members = {name: file.read(name).decode() for name in file.namelist()}
    strict = {
        name: text.replace(
            f"{usual}wordprocessingml/2006/", "http://purl.oclc.org/ooxml/wordprocessingml/"
        )
        .replace(f"{usual}officeDocument/2006/", "http://purl.oclc.org/ooxml/officeDocument/")
        .encode()
        for name, text in members.items()
    }
    assert markdown(zipped(strict), "docx", tmp_path) == "# Strict\n"
